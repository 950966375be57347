"""A line's decisions, re-derived from its numbers alone; no model, no law, no clock.

`audit` compares and remembers, `ledger` holds the recorded numbers while `rules` walks the four
acceptance rules over them, `rows` goes from scores to p and to the target's own choice, `check`
says what each stage must satisfy. The writer runs the same checks on every line it writes.
"""
