"""The prompts that are shipped, written for this project and nothing else.

    prompts.jsonl   what is asked: nine categories, three kinds of case, ten languages; in an order
                    in which the first n of them are a cross-section
    answers.jsonl   for each prompt with a check, an answer that passes it (`reference`) and one
                    that must not (`wrong`): for misleading cases the one a drafter is led to
    LICENSE.txt     Apache-2.0, as the project
    validate.py     `validate() -> problems`: is the set what is said of it?

`language` is that of the wanted answer (ISO 639-1; `mul` = several). `misleading` cases are made to
set drafters wrong: text that repeats with other numbers or names, a pattern that breaks once, code
that looks like the code above it and differs. `probe` marks prompts for `failure_mode.cases`.
"""
