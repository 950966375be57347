"""Arms as something to ask: each kind opened, watched and closed in its own way.

arm.py        `OpenArm`, what measuring needs of an arm, and `Usage`, what an arm took meanwhile
local.py      a configuration in this process: an engine of its own on the shared model
planted.py    faults put in on purpose, for plans that test the evaluation
scripted.py   a drafter that knows the answer and is as right as it is told to be
remote.py     a server someone runs
served/       servers that are started, waited for and stopped here
adapters.py   what each engine calls its counters
opening.py    `open_arms(plan, ...)`: all arms of a plan, closed again whatever happens
audit.py      before any timing: do the arms differ in speculation only?
"""
