"""The law: everything that decides which token comes next, and nothing else.

Pure functions of numbers: no files, clocks, threads or hidden randomness. Read the files in the
order of a round: `draft` (1 guess), `score` (2 one pass), `accept` (3 what survives), `resample`
(4 the token the target always chooses), `repeat` (5 the round, and where a text ends). `sampling`
and `law` say what the caller asked and what that makes of the logits; `coins` is the only source
of chance; `sequence` is a request in flight.
"""
