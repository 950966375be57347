"""What an answer must be: checks as data, and one grader for each kind.

    checks.py     the shapes of checks, with their errors
    text.py       exact, contains, numeric: pure functions of the answer
    document.py   JSON in an answer, and what it equals
    patterns.py   regexes and JSON Schemas, in a process that can be stopped
    program.py    the code in an answer, run in the sandbox
    grade.py      `grade_text(check, text) -> measurement.Grade`

A grader says what it found and what was wanted. It never guesses what an answer meant: a check
that good answers fail is a wrong check, and `builtin.validate` finds those of the shipped set.
"""
