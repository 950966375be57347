"""From records to outcomes: the only place that turns numbers into PASS or FAIL.

    from outpace.evaluate.judge import judge, conclude

    judge(plan, measurements, statements) -> tuple[Outcome, ...]    one per criterion of the plan
    conclude(plan, measurements, statements) -> Verdict             and what follows from them

Pure: no clock, no files, no chance (resampling is seeded). `statements` is all of a ledger;
`phases.what_follows` says which of them count. Nothing is judged before its phase is done: until
then its criteria are INCONCLUSIVE, "not measured yet". Once it is, silence fails what must have
data.

What is read, and so what has to be written:

    verify    body as `evaluate.exact` says: enumeration, texts, laws, contract, activity,
              same_model, config_effect, limits
    test      measurements of phase "test" (variant ""), all arms in blocks; a `Window` per arm and
              block, its last attempt counts. Body: `recovery`, as `evaluate.study` says
    confirm   the same of phase "confirm"; each criterion is then the worse of the two
    load      phase "load", `block.load` = the scenario's name; only requests of the attempt of the
              block's last window count
    failure_mode   phase "failure_mode", variants "alpha=0.25,control=on", "alpha=0.25,control=off",
              "case=adversarial,control=on", ... Each asks candidate *and* baseline, in pairs; where
              a variant has no baseline of its own, the test's answers to the same items stand in
    what_if   phase "what_if", one variant per changed assumption, baseline and candidate in each;
              shown in reports, judged by no criterion

A pair is the same place (load, repeat, item, turn, temperature) in the same attempt, answered by
both arms; the first whole attempt counts. Repeats, turns and temperatures of one item are one
unit. INVALID: a window that does not count, a baseline that guesses or a candidate that does not,
different models, more failures than the plan allows, answers of another length.

    verified.py   shapes of statement bodies      evidence.py   pairs and windows with their lines
    validity.py   does this comparison count?     effects.py    a metric -> an estimate
    blocks.py     goodput, cost, energy, memory   words.py      rules and findings as sentences
    criteria/     one kind of criterion a file    judging.py    all of a plan
"""

from outpace.evaluate.judge.judging import conclude, judge

__all__ = ["conclude", "judge"]
