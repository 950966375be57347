"""Exactness: is what an arm writes what the baseline would have written, and how is that known?

    texts.py     arms in this process: text against text, judged by `evaluate.exactness`
    wire.py      endpoints: text against text, judged by log-probabilities where servers give them
    sampled.py   samples of both arms, for the tests of `stats` on whole laws
    contract.py  the contract checks of `outpace.endpoint`, on an arm
    kept.py      what was found so far, in the study's folder
    law/         the enumeration: every path of the real round on small tables

What `verify` finds is the body of its statement, a `judge.verified.Verified`:

    exact_law      {"worst", "at", "cases", "paths"}; None unless it was walked
    texts          a list, one entry per arm, prompt and temperature:
                   {"arm", "prompt", "temperature", "verdict", "at", "margin", "noise", "n_tokens",
                    "control", "how"}
                   verdict: identical | tie | mismatch | unchecked (they differ, and nothing tells
                   a tie from a mismatch); control: the baseline against itself, in these words;
                   at: the first token that differs; margin, noise: log-units; how: what was told
    laws           {arm: [{"prompt", "temperature", "test", "p_value", "n", "detectable_tv",
                    "found"}, ...]}
    contract       {arm: [{"name", "verdict", "found"}, ...]}: pass | fail | unsupported
    activity       {arm: {"expected", "moved", "why"}}: guesses counted on arms
                   that speculate, and none on those that do not; moved None = nobody counts
    same_model     {"same", "checks": [{"what", "same", "found"}, ...]}; same None = not checkable
    config_effect  a list: {"arm", "option", "value", "live", "found"}; live None = not shown by
                   any counter
    limits         what could not be checked, in words
"""
