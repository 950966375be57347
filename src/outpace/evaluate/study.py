"""A study: one plan, the folder of everything measured for it, and what may be done next.

    plan.yaml     as it was locked            records.jsonl   what was measured
    ledger.jsonl  what was done, chained      shares.jsonl    what turns took, for windows
    lineage.json  what the digests stand for  logs/           of managed servers

Bodies of statements, beside the outcomes that `judge` reads from them:

    lock     {"base": the data's folder from the study's, "warnings", "counts", "notes"}
    verify   `outpace.evaluate.exact`
    tune     {"requests", "blocks"}
    test     {"requests", "blocks", "recovery": {...}}, confirm: without recovery
             recovery: {"arm", "fall_back_s", "return_s", "fall_back_tokens", "return_tokens",
             "switches", "found"}; None where it did not happen or cannot be seen
    load     {"valid", "scenarios": {name: {arm: {"asked_per_s", "achieved_per_s", "failed",
             "requests", "valid", "reasons"}}}}
    verdict  {"conclusion", "words", "confirmed", "reasons", "outcomes"}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from outpace.errors import ConfigError
from outpace.evaluate.ledger import LEDGER, Event, Kind, Ledger, Statement, read_ledger
from outpace.evaluate.measurement import RECORDS, Measurements, read_measurements
from outpace.evaluate.phases import State, what_follows
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.read import read_plan

PLAN, LINEAGE, LOGS = "plan.yaml", "lineage.json", "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A folder and its plan. base: what the plan's relative paths start from."""

    folder: Path
    plan: Plan
    base: Path

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All so far, the chain verified."""
        return tuple(entry.statement for entry in read_ledger(self.folder))

    @property
    def skip(self) -> frozenset[Kind]:
        """Phases the plan does not have."""
        left_out: set[Kind] = set()
        if not self.plan.data.split.confirm:
            left_out.add("confirm")
        if self.plan.load is None:
            left_out.add("load")
        return frozenset(left_out)

    def state(self, now: Mapping[str, str] | None = None) -> State:
        """What was done, what still counts, and what is next."""
        return what_follows(self.statements, now, skip=self.skip)

    def measurements(self) -> Measurements:
        """Everything measured."""
        return read_measurements(self.folder / RECORDS, plan=self.plan.identity)

    def note(
        self, kind: Kind, *, at: datetime, lineage: Mapping[str, str],
        body: Mapping[str, JsonValue], event: Event = "done",
    ) -> None:  # fmt: skip
        """Append a statement. at: the wall clock, with its zone."""
        with Ledger(self.folder) as ledger:
            ledger.append(
                Statement(
                    kind=kind, at=at.isoformat(timespec="seconds"), plan=self.plan.identity,
                    event=event, lineage=dict(lineage), body=dict(body),
                )
            )  # fmt: skip

    def keep_lineage(self, document: Mapping[str, object]) -> None:
        """Write down what the digests stand for."""
        text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True)
        _write(self.folder / LINEAGE, (text + "\n").encode())


def default_folder(plan: Plan) -> Path:
    """Where a plan's study is kept unless said otherwise."""
    return Path(f"evaluation-{plan.metadata.name}")


def found_at(path: Path, out: Path | None = None) -> Study:
    """The study of a plan's file, or in a folder.

    Raises:
        PlanError: the file is no plan.
        ConfigError: the folder is no study, or the plan in it is another one.
    """
    if path.is_dir():
        if not (path / PLAN).exists():
            raise ConfigError(f"{path} has no {PLAN}; name a plan's file, or the folder of a study")
        plan = read_plan(path / PLAN)
        return Study(folder=path, plan=plan, base=_base(path))
    plan = read_plan(path)
    folder = out or default_folder(plan)
    if (folder / PLAN).exists():
        locked = read_plan(folder / PLAN)
        if locked.identity != plan.identity:
            raise ConfigError(
                f"{path} is not the plan that was locked in {folder} ({plan.identity[:12]}, locked "
                f"{locked.identity[:12]}): a changed plan is a new plan; put it into another "
                "folder with --out"
            )
    return Study(folder=folder, plan=plan, base=path.parent)


def begin(study: Study, source: Path) -> None:
    """Make the folder and copy the plan's file into it, comments and all.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        study.folder.mkdir(parents=True, exist_ok=True)
        if source.resolve() != (study.folder / PLAN).resolve():
            _write(study.folder / PLAN, source.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot make the folder {study.folder}: {error.strerror}") from None


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    draft = path.with_suffix(path.suffix + ".new")
    draft.write_bytes(content)
    draft.replace(path)


def _base(folder: Path) -> Path:
    """Where the plan's data lies, as the lock says."""
    if (folder / LEDGER).exists():
        for entry in reversed(read_ledger(folder)):
            base = entry.statement.body.get("base")
            if isinstance(base, str):
                return folder / base
    return folder
