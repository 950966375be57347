"""Before any timing: do the arms differ in speculation only, and does each option do anything?

Configuration is not trusted, counters are: servers accept options that nothing reads, and say
"no speculation" while they speculate. What no counter shows is None, never taken for good.
"""

import json
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq

from outpace.core.sampling import Sampling
from outpace.errors import ConfigError
from outpace.evaluate.arms.arm import DRAFTED, DRAFTS, OpenArm, moved
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.arms.served.managed import ManagedArm
from outpace.evaluate.judge.verified import Activity, ModelCheck, OptionEffect, SameModel

_COPY = "The red boat left the harbour at noon. The red boat came back at noon."
# Something a drafter that copies will guess, whatever the model; short, for small contexts.
PROBE: tuple[Mapping[str, str], ...] = (
    {"role": "user", "content": f"Repeat this, word for word, again and again:\n{_COPY}\n{_COPY}"},
)
_PROBES: tuple[str, ...] = ("Say hello.", "Name three rivers.", "2 + 2 =", "Wie heißt du? Ça va?")
_PROBE_TOKENS, _SHORT_TOKENS = 96, 8


def activity(
    arms: Mapping[str, OpenArm], expected: Mapping[str, bool | None]
) -> dict[str, Activity]:
    """Guesses are counted where an arm speculates, and only there. expected: None = any."""
    found: dict[str, Activity] = {}
    for name, arm in arms.items():
        moves, asked = guessed(probe(arm)), expected.get(name)
        found[name] = Activity(expected=asked, moved=moves, why=_why(asked, moves))
    return found


def _why(expected: bool | None, moves: bool | None) -> str:
    if moves is None:
        return "the server counts no guesses; measured from the client alone"
    if expected is None:
        return "guesses were counted" if moves else "no guess was counted"
    if moves == expected:
        return "as the plan says"
    return "guesses on an arm that should make none" if moves else "no guess on an arm that should"


def guessed(counters: Mapping[str, float]) -> bool | None:
    """Whether guesses were counted; None = nobody counts them."""
    found = counters.get(DRAFTED, counters.get(DRAFTS))
    return None if found is None else found > 0


def probe(arm: OpenArm) -> dict[str, float]:
    """How far an arm's counters move while it answers the probe; empty = it says nothing.

    Raises:
        ConfigError: it gives no answer.
    """
    sampling = Sampling(temperature=0, max_tokens=_PROBE_TOKENS, ignore_eos=arm.goes_on)
    before = arm.counters()
    answer = arm.ask(PROBE, sampling)
    if not answer.ok:
        raise ConfigError(f"arm {arm.name} does not answer a short request: {answer.error}")
    found = moved(before, arm.counters())
    said = answer.speculation
    if said is not None and not found.get(DRAFTED):  # told with the answer, not in a counter
        found[DRAFTED] = float(said.drafted)
    return found


def same_model(arms: Mapping[str, OpenArm], against: str) -> SameModel:
    """The arms serve one model: the same ids for the same text, and the same first words."""
    base = arms[against]
    checks: list[ModelCheck] = []
    for name, arm in arms.items():
        if name == against:
            continue
        if isinstance(base, LocalArm) and isinstance(arm, LocalArm):
            same = base.model is arm.model
            checks.append(ModelCheck(what=f"{name}: weights", same=same, found="one in memory"))
            continue
        checks += [_tokens(name, arm, base), _words(name, arm, base)]
    told = [check.same for check in checks if check.same is not None]
    return SameModel(same=all(told) if told else None, checks=tuple(checks))


def _tokens(name: str, arm: OpenArm, base: OpenArm) -> ModelCheck:
    ids = [_ids(one) for one in (base, arm)]
    same = None if None in ids else ids[0] == ids[1]
    said = "not told" if same is None else "the same" if same else "others"
    return ModelCheck(what=f"{name}: tokenizer and template", same=same, found=f"ids are {said}")


def _ids(arm: OpenArm) -> list[int] | None:
    if isinstance(arm, LocalArm):
        return arm.model.encode(list(PROBE)) if arm.model.template is not None else None
    return arm.tokenize(PROBE) if isinstance(arm, RemoteArm) else None


def _words(name: str, arm: OpenArm, base: OpenArm) -> ModelCheck:
    """Greedy beginnings: near ties may part one of them, another model parts most."""
    sampling = Sampling(temperature=0, max_tokens=_SHORT_TOKENS)
    n_same = 0
    for text in _PROBES:
        asked = ({"role": "user", "content": text},)
        mine, other = (one.ask(asked, sampling, want_text=True) for one in (base, arm))
        n_same += mine.ok and other.ok and mine.text == other.text
    return ModelCheck(
        what=f"{name}: first words", same=2 * n_same > len(_PROBES),
        found=f"{n_same} of {len(_PROBES)} greedy beginnings are equal",
    )  # fmt: skip


def config_effect(arms: Mapping[str, OpenArm]) -> list[OptionEffect]:
    """Each speculative option, shown live or dead by what is counted with and without it."""
    found: list[OptionEffect] = []
    for arm in arms.values():
        if isinstance(arm, LocalArm):
            found += _local_options(arm)
        elif isinstance(arm, ManagedArm):
            found += _served_options(arm)
    return found


def _local_options(arm: LocalArm) -> Iterator[OptionEffect]:
    """Options that differ from their defaults, each put back to it for one probe."""
    mine = arm.arm
    if mine.drafter == "none":
        return
    with_it = _counts(arm)
    plain: dict[str, str | None] = {
        "drafter": "none", "depth": None, "speculation": "auto", "rule": "auto", "force": None,
    }  # fmt: skip
    for option, without in plain.items():
        value = getattr(mine, option)
        if value == without or (option == "rule" and value == "match"):
            continue
        changed = LocalArm(arm.name, mine.model_copy(update={option: without}), arm.model)
        try:
            others = _counts(changed)
        finally:
            changed.close()
        live: bool | None = with_it != others
        if option == "rule":
            live = None  # greedy probes take the same guesses under every rule
        yield OptionEffect(
            arm=arm.name, option=option, value=value, live=live,
            found=f"{_spelled(with_it)}; with {without}: {_spelled(others)}",
        )  # fmt: skip


def _counts(arm: LocalArm) -> tuple[float, float]:
    arm.fresh()
    arm.settle(())
    found = probe(arm)
    return found.get(DRAFTS, 0.0), found.get(DRAFTED, 0.0)


def _spelled(counts: Seq[float]) -> str:
    return f"{counts[0]:g} drafts, {counts[1]:g} guesses"


def _served_options(arm: ManagedArm) -> Iterator[OptionEffect]:
    """The keys of vLLM's speculative configuration, as far as counters show them."""
    args = arm.server.command
    flags = [i for i, part in enumerate(args) if part in ("--speculative-config", "-sc")]
    if not flags:
        return
    try:
        options = json.loads(args[flags[0] + 1])
    except (ValueError, IndexError):
        return
    counts = probe(arm)
    drafts, drafted = counts.get(DRAFTS, 0.0), counts.get(DRAFTED, 0.0)
    mean = drafted / drafts if drafts else None
    for option, value in options.items():
        live: bool | None = None
        said = "no counter shows it"
        if option == "method":
            live, said = drafts > 0, f"{drafts:g} drafts of the probe"
        elif option == "num_speculative_tokens" and mean is not None:
            live, said = mean <= float(value), f"{mean:.2f} guesses a draft"
        yield OptionEffect(arm=arm.name, option=option, value=value, live=live, found=said)
