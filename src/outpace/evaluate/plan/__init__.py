"""The plan: what will be measured and what would refute it, written before anything is measured.

    read.py       a YAML file -> `Plan`, or an error that names key, line, what is allowed
    document.py   `Plan` and its identity
    arms.py · data.py · load.py · criteria.py · probes.py   its parts
    lint.py       `lint(plan, facts)`: what is unwise or cannot work, by the rules in `rules/`
    shape.py      how all parts are checked

Reading says whether a document *is* a plan; linting whether the plan can answer its question.
"""
