"""Is the shipped set what is said of it? Every way in which it is not, by prompt."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import get_args

from outpace.bench import workload
from outpace.errors import ConfigError
from outpace.evaluate.data.alike import alike
from outpace.evaluate.data.graders.checks import Python
from outpace.evaluate.data.graders.grade import grade_text
from outpace.evaluate.data.graders.text import normal
from outpace.evaluate.data.items import CASE_KINDS, UNKNOWN_LANGUAGE, Item
from outpace.evaluate.data.read import read_items
from outpace.evaluate.data.sandbox.run import Limits
from outpace.evaluate.plan.probes import Case

FOLDER = Path(__file__).parent
MOST_BYTES = 1 << 20
LEAST = {
    "chat": 30, "code": 40, "arithmetic": 30, "summarise": 20, "copy": 30, "extract": 30,
    "translate": 40, "long_context": 20, "json": 30,
}  # fmt: skip
LEAST_PROMPTS, LEAST_OF_A_KIND, LEAST_OF_A_PROBE, LEAST_TARGETS = 300, 60, 10, 4
LONG_CHARACTERS = 2000
_LIMITS = Limits(cpu_s=10, wall_s=60)
_KEYS = {
    "id", "category", "language", "case_kind", "probe", "prompt", "turns", "messages", "check",
}  # fmt: skip


def validate(folder: Path = FOLDER, *, run_code: bool = True) -> tuple[str, ...]:
    """Everything wrong with the set; nothing = it is as it is described.

    run_code: also run the tests of code, which takes a fifth of a second each.
    """
    try:
        _, items = read_items(folder / "prompts.jsonl")
        answers = _answers(folder / "answers.jsonl")
    except ConfigError as error:
        return (str(error),)
    return (
        *_shipping(folder),
        *_shape(folder, items),
        *_counts(items),
        *_originality(items),
        *_agreement(items, answers, run_code=run_code),
    )


def _answers(path: Path) -> Mapping[str, Mapping[str, str]]:
    _, entries = workload.read_entries(path)
    found: dict[str, Mapping[str, str]] = {}
    for line, entry in entries:
        row = workload.parsed(entry)
        if not isinstance(row, dict) or row.keys() != {"id", "reference", "wrong"}:
            raise ConfigError(f"{path}:{line} has no id, reference and wrong")
        if row["id"] in found:
            raise ConfigError(f"{path}:{line}: {row['id']} is answered twice")
        found[row["id"]] = row
    return found


def _shipping(folder: Path) -> Iterator[str]:
    licence = folder / "LICENSE.txt"
    if not licence.exists() or "Apache License, Version 2.0" not in licence.read_text("utf-8"):
        yield "LICENSE.txt is not the Apache License"
    size = sum(path.stat().st_size for path in folder.glob("*.*"))
    if size > MOST_BYTES:
        yield f"{size} bytes; allowed: {MOST_BYTES}"


def _shape(folder: Path, items: Seq[Item]) -> Iterator[str]:
    for line in (folder / "prompts.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if unknown := row.keys() - _KEYS:
            yield f"{row.get('id')}: unknown {', '.join(sorted(unknown))}"
    for item in items:
        if item.category not in LEAST or not item.id.startswith(item.category.replace("_", "-")):
            yield f"{item.id}: its category is {item.category}"
        if item.language == UNKNOWN_LANGUAGE:
            yield f"{item.id}: no language"
        probe = item.fields.get("probe")
        if probe is not None and probe not in get_args(Case):
            yield f"{item.id}: probe {probe!r}; allowed: {', '.join(get_args(Case))}"
        if item.case_kind == "misleading" and item.check is None:
            yield f"{item.id}: misleading, but nothing says whether it misled"
        if item.category == "long_context" and len(item.prompt) < LONG_CHARACTERS:
            yield f"{item.id}: {len(item.prompt)} characters are no long context"
        texts = [message["content"] for message in item.messages] + list(item.later)
        if any(text != text.strip() or "\r" in text for text in texts):
            yield f"{item.id}: space around it"


def _counts(items: Seq[Item]) -> Iterator[str]:
    least: dict[str, Mapping[str, int]] = {
        "category": LEAST,
        "case_kind": dict.fromkeys(CASE_KINDS, LEAST_OF_A_KIND),
        "probe": dict.fromkeys(get_args(Case), LEAST_OF_A_PROBE),
    }
    found = {
        "category": Counter(item.category for item in items),
        "case_kind": Counter(item.case_kind for item in items),
        "probe": Counter(str(item.fields.get("probe")) for item in items),
    }
    if len(items) < LEAST_PROMPTS:
        yield f"{len(items)} prompts; wanted: {LEAST_PROMPTS}"
    for factor, wanted in least.items():
        for value, n in wanted.items():
            if found[factor][value] < n:
                yield f"{factor} {value}: {found[factor][value]}; wanted: {n}"
    targets = {i.language for i in items if i.category == "translate"} - {"en", "mul"}
    if len(targets) < LEAST_TARGETS:
        yield f"translations into {len(targets)} languages; wanted: {LEAST_TARGETS}"


def _originality(items: Seq[Item]) -> Iterator[str]:
    """No prompt twice, here or in the benchmark's set, and none nearly so."""
    others = workload.read_workload(workload.BUILT_IN).items
    bench = [message["content"] for item in others for message in item.messages]
    own = ["\n".join([*(m["content"] for m in i.messages), *i.later]) for i in items]
    equal = {normal(text) for text in bench}
    for item in items:
        if normal(item.prompt) in equal:
            yield f"{item.id}: is in the benchmark's set"
    pairs = alike([*bench, *own])[len(bench) :]
    for item, near in zip(items, pairs, strict=True):
        for at in near:
            other = "the benchmark's" if at < len(bench) else items[at - len(bench)].id
            yield f"{item.id}: nearly {other}"


def _agreement(
    items: Seq[Item], answers: Mapping[str, Mapping[str, str]], *, run_code: bool
) -> Iterator[str]:
    """Each check passes its reference and does not pass the wrong answer."""
    checked = {item.id for item in items if item.check is not None}
    for name in sorted(checked ^ answers.keys()):
        yield f"{name}: {'no answer' if name in checked else 'an answer without a check'}"
    for item in items:
        if item.check is None or item.id not in answers:
            continue
        if isinstance(item.check, Python) and not run_code:
            continue
        for name, wanted in (("reference", True), ("wrong", False)):
            grade = grade_text(item.check, answers[item.id][name], limits=_LIMITS)
            if grade.passed is not wanted:
                yield f"{item.id}: {name} is graded {grade.passed}: {grade.reason}"
