"""The tables of cases: which rule meets which tree, processor, end and control.

`RULES` is a full cross. Processors, ends and controls each meet every row of `WAYS`, one way per
rule and kind of guess, with the drafter's skill rotating.
"""

from collections.abc import Mapping
from dataclasses import replace

from laws.guessers import BOUGHS, CHAIN1, CHAIN2, CHAIN3, ELBOW, FORK, LATE, TRIPLE, Pick
from laws.reference import Text
from laws.world import SKILLS, Case, Skill
from outpace.core.sampling import Rule, Sampling

WARM = Sampling(temperature=0.9)
SHAPES: Mapping[str, tuple[int, ...]] = {
    "chain1": CHAIN1, "chain2": CHAIN2, "chain3": CHAIN3, "fork": FORK, "elbow": ELBOW,
    "late": LATE, "boughs": BOUGHS, "triple": TRIPLE,
}  # fmt: skip
PICKS: Mapping[Rule, tuple[Pick, ...]] = {
    "match": ("chosen", "coupled"),
    "token": ("chosen", "without", "with"),
    "block": ("chosen", "without"),
    "traversal": ("chosen", "without", "with"),
}
# One way to guess and to verify per row: rule, shape, pick.
WAYS: tuple[tuple[Rule, str, Pick], ...] = (
    ("match", "chain2", "coupled"),
    ("match", "elbow", "chosen"),
    ("token", "chain2", "without"),
    ("token", "elbow", "chosen"),
    ("token", "late", "with"),
    ("block", "chain3", "without"),
    ("block", "chain2", "chosen"),
    ("traversal", "elbow", "without"),
    ("traversal", "late", "with"),
    ("traversal", "fork", "chosen"),
)


def _rules() -> list[Case]:
    return [
        Case(
            name=f"{rule} {shape} {pick} {skill}",
            sampling=replace(WARM, rule=rule), shape=SHAPES[shape], pick=pick, skill=skill,
            n_watched=2 if shape == "boughs" else 3, seed=seed,
        )
        for seed, shape in enumerate(SHAPES)
        for rule, picks in PICKS.items()
        if rule != "block" or shape.startswith("chain")
        for pick in picks
        for skill in SKILLS
    ]  # fmt: skip


# What is left to `choose_rule`: (sampling, pick, the rule it must come to).
CHOSEN_FOR_YOU: Mapping[str, tuple[Sampling, str, Pick, Rule]] = {
    "cold": (Sampling(temperature=0), "elbow", "chosen", "match"),
    "seeded": (Sampling(temperature=0.8, seed=5), "elbow", "coupled", "match"),
    "seeded guesses chosen": (Sampling(temperature=0.8, seed=5), "elbow", "chosen", "match"),
    "drawn chain": (WARM, "chain3", "without", "block"),
    "drawn tree": (WARM, "boughs", "without", "traversal"),
    "drawn tree with replacement": (WARM, "elbow", "with", "traversal"),
    "chosen chain": (WARM, "chain2", "chosen", "token"),
    "chosen tree": (WARM, "boughs", "chosen", "token"),
}


def _left_to_us() -> list[Case]:
    return [
        Case(
            name=f"{name} {skill}", sampling=sampling, shape=SHAPES[shape], pick=pick,
            skill=skill, seed=3, n_watched=2 if shape == "boughs" else 3,
        )
        for name, (sampling, shape, pick, _) in CHOSEN_FOR_YOU.items()
        for skill in SKILLS
    ]  # fmt: skip


def no_repeats(text: Text) -> set[int]:
    """A grammar: no token twice in a row."""
    return {0, 1, 2, 3} - {*text[-1:]}


def pairs(text: Text) -> set[int]:
    """A grammar with a state: 2 opens, only 0 closes, nothing opens twice."""
    if text and text[-1] == 2:
        return {0}
    return {0, 1} if 2 in text else {0, 1, 2}


PROCESSORS: Mapping[str, Sampling | tuple[Sampling, object]] = {
    "temperature 0": Sampling(temperature=0),
    "temperature 1e-300": Sampling(temperature=1e-300),
    "temperature 0.05": Sampling(temperature=0.05),
    "temperature 3": Sampling(temperature=3),
    "top_k 1": replace(WARM, top_k=1),
    "top_k 2": replace(WARM, top_k=2),
    "top_k V": replace(WARM, top_k=3),
    "top_k above V": replace(WARM, top_k=100),
    "top_p 0.6": replace(WARM, top_p=0.6),
    "top_p 0.9": replace(WARM, top_p=0.9),
    "top_p tiny": replace(WARM, top_p=1e-9),
    "top_p 1": replace(WARM, top_p=1.0),
    "min_p 0.3": replace(WARM, min_p=0.3),
    "min_p 1": replace(WARM, min_p=1.0),
    "top_k 2 top_p 0.7": replace(WARM, top_k=2, top_p=0.7),
    "top_k 2 top_p 0.95 min_p 0.2": replace(WARM, top_k=2, top_p=0.95, min_p=0.2),
    "repetition 1.7": replace(WARM, repetition_penalty=1.7),
    "repetition 0.6": replace(WARM, repetition_penalty=0.6),
    "presence 1.1": replace(WARM, presence_penalty=1.1),
    "presence -0.8": replace(WARM, presence_penalty=-0.8),
    "frequency 0.9": replace(WARM, frequency_penalty=0.9),
    "all penalties": replace(
        WARM, repetition_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.7
    ),
    "all penalties cold": Sampling(
        temperature=0, repetition_penalty=1.6, presence_penalty=0.9, frequency_penalty=0.9
    ),
    "bias": replace(WARM, logit_bias={0: 1.5, 2: -0.7}),
    "bias -inf": replace(WARM, logit_bias={1: -float("inf")}),
    "banned token": replace(WARM, banned=((2,),)),
    "banned pair": replace(WARM, banned=((1, 2), (0, 0))),
    "banned triple": replace(WARM, banned=((0, 1, 2), (1,))),
    "forced 1": replace(WARM, forced=(2,)),
    "forced 2": replace(WARM, forced=(2, 0)),
    "forced past a ban": replace(WARM, forced=(2, 0), banned=((2,),)),
    "min_tokens 2": (replace(WARM, min_tokens=2), {"eos_ids": frozenset({1})}),
    "grammar no repeats": (WARM, {"allowed": no_repeats}),
    "grammar pairs": (WARM, {"allowed": pairs}),
    "grammar cold": (Sampling(temperature=0), {"allowed": no_repeats}),
    "grammar and forced": (replace(WARM, forced=(2, 0)), {"allowed": no_repeats}),
    "grammar against forced": (replace(WARM, forced=(2, 2)), {"allowed": no_repeats}),
    "grammar and penalties": (
        replace(WARM, frequency_penalty=0.9, top_p=0.8), {"allowed": no_repeats},
    ),
}  # fmt: skip

SPELLED = ("a", "b", "ba", "ac")
ENDS: Mapping[str, Sampling | tuple[Sampling, object]] = {
    "eos": (WARM, {"eos_ids": frozenset({1})}),
    "two eos": (WARM, {"eos_ids": frozenset({0, 2})}),
    "eos ignored": (replace(WARM, ignore_eos=True), {"eos_ids": frozenset({1})}),
    "stop id": replace(WARM, stop_token_ids=frozenset({2})),
    "stop id and eos": (
        replace(WARM, stop_token_ids=frozenset({2})), {"eos_ids": frozenset({1})},
    ),
    "stop id is eos, ignored": (
        replace(WARM, stop_token_ids=frozenset({1}), ignore_eos=True),
        {"eos_ids": frozenset({1})},
    ),
    "min_tokens 1 before eos": (replace(WARM, min_tokens=1), {"eos_ids": frozenset({1})}),
    "min_tokens 2 before stop id": replace(WARM, min_tokens=2, stop_token_ids=frozenset({0})),
    "min_tokens 3 eos ignored": (
        replace(WARM, min_tokens=3, ignore_eos=True), {"eos_ids": frozenset({1})},
    ),
    "stop string in a token": (replace(WARM, stop=("ba",)), {"spelled": SPELLED}),
    "stop string over tokens": (replace(WARM, stop=("aba", "bb")), {"spelled": SPELLED}),
    "stop string before min_tokens": (
        replace(WARM, stop=("b",), min_tokens=2), {"spelled": SPELLED, "eos_ids": frozenset({1})},
    ),
    "stop string and eos": (
        replace(WARM, stop=("ab",)), {"spelled": SPELLED, "eos_ids": frozenset({1})},
    ),
    "max_tokens 1": replace(WARM, max_tokens=1),
    "max_tokens 2": replace(WARM, max_tokens=2),
    "max_tokens 3": replace(WARM, max_tokens=3),
    "max_tokens 2 and eos": (replace(WARM, max_tokens=2), {"eos_ids": frozenset({1})}),
    "context 3": (WARM, {"context_tokens": 3}),
    "context 4": (WARM, {"context_tokens": 4}),
    "context and max_tokens": (replace(WARM, max_tokens=2), {"context_tokens": 4}),
    "dead end": replace(WARM, banned=((2, 0), (2, 1), (2, 2))),
    "dead end at once": replace(WARM, banned=((0,), (1,), (2,))),
    "dead end after eos": (
        WARM, {"eos_ids": frozenset({1}), "allowed": lambda t: {0, 1, 2} if 1 not in t else set()},
    ),
    "dead end of a grammar": (WARM, {"allowed": lambda t: {0, 2} if 2 not in t else set()}),
}  # fmt: skip

CONTROLS: Mapping[str, tuple[Sampling, object]] = {
    "depth 0": (WARM, {"depth": lambda n: 0}),
    "depth 1": (WARM, {"depth": lambda n: 1}),
    "depth 1 then 3": (WARM, {"depth": lambda n: 1 + 2 * (n > 0)}),
    "depth 2 then 0": (WARM, {"depth": lambda n: 2 * (n == 0)}),
    "depth 0 then 2": (WARM, {"depth": lambda n: 2 * (n > 0)}),
}


def _crossed(table: Mapping[str, Sampling | tuple[Sampling, object]]) -> list[Case]:
    cases: list[Case] = []
    for row, (name, entry) in enumerate(table.items()):
        sampling, more = entry if isinstance(entry, tuple) else (entry, {})
        assert isinstance(more, dict)
        for way, (rule, shape, pick) in enumerate(WAYS):
            skill = SKILLS[(row + way) % 3]
            case = Case(
                name=f"{name} {rule} {shape} {pick} {skill}",
                sampling=replace(sampling, rule=rule), shape=SHAPES[shape], pick=pick,
                skill=skill, seed=row,
            )  # fmt: skip
            cases.append(replace(case, **more))
    return cases


def _wide() -> list[Case]:
    return [
        replace(case, name=f"V=4 {case.name}", vocab_size=4, seed=9, n_watched=2)
        for case in _rules()
        if case.shape == CHAIN3 and case.skill == "half"
    ]


def _deep() -> list[Case]:
    """Watched past the bonus of a full block."""
    return [
        replace(case, name=f"deep {case.name}", vocab_size=2, seed=2, n_watched=5)
        for case in _rules()
        if case.shape in (CHAIN3, LATE)
    ]


def _reshaped() -> list[Case]:
    """The tree changes from round to round."""
    ways: tuple[tuple[Rule, Pick, Skill], ...] = (
        ("match", "coupled", "half"), ("token", "without", "random"),
        ("token", "chosen", "half"), ("traversal", "without", "random"),
    )  # fmt: skip
    return [
        Case(
            name=f"{first} then {later} {rule} {pick} {skill}",
            sampling=replace(WARM, rule=rule), shape=SHAPES[first], later=SHAPES[later],
            pick=pick, skill=skill, seed=0,
        )
        for first, later in (("chain2", "fork"), ("fork", "chain2"), ("elbow", "late"))
        for rule, pick, skill in ways
    ]  # fmt: skip


RULE_CASES = _rules()
RULE_LEFT_CASES = _left_to_us()
PROCESSOR_CASES = _crossed(PROCESSORS)
END_CASES = _crossed(ENDS)
CONTROL_CASES = [*_crossed(CONTROLS), *_reshaped()]
WIDE_CASES = [*_wide(), *_deep()]
ALL_CASES = [
    *RULE_CASES, *RULE_LEFT_CASES, *PROCESSOR_CASES, *END_CASES, *CONTROL_CASES, *WIDE_CASES,
]  # fmt: skip
BY_NAME = {case.name: case for case in ALL_CASES}
