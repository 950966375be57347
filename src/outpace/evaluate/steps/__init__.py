"""The phases as they are run: each reads what the one before stated, and states what it found.

session.py    one process at work on a study: prompts read, arms open, lineage known
locking.py    facts for the linter, and the lock
verify.py     exactness, activity, one model, options that do something
measured.py   tune, test, confirm: the same blocks on another part of the prompts
probes.py     variants of the test: the failure mode forced, one assumption changed
recovery.py   how soon guessing stops when it fails, and starts again when it pays
load.py       scenarios: requests that come when they come
walk.py       all of it in order, and where a person must decide
"""
