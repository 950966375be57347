"""`outpace evaluate ...`: the commands around a plan.

commands.py   one function per command
shell.py      what the phases are given: models, keys, clock, progress bars
init.py       a plan to begin with
show.py       what people see of findings, states and verdicts
"""
