"""How a trace is laid out and filled; the doors are one floor up (`trace`, `replay`, `explain`).

`lines` and `stage` are the format, `codec` its JSON and the chain of digests, `course` a request
between its rounds, `measure` and `steps` turn laws into numbers, `stages` a round into a line.
"""
