"""What a study's folder holds, read once: plan, ledger, records, lineage."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpace.errors import ConfigError
from outpace.evaluate.judge.evidence import Evidence, Where, gather
from outpace.evaluate.judge.judging import outcomes, verdict
from outpace.evaluate.judge.verified import Tested, Verified
from outpace.evaluate.ledger import Entry, read_ledger
from outpace.evaluate.measurement import RECORDS, read_measurements
from outpace.evaluate.plan.read import read_plan
from outpace.evaluate.verdict import Outcome, Verdict

PLAN, LINEAGE = "plan.yaml", "lineage.json"
TEST = Where(phase="test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A study as the report needs it: evidence and what was judged of it.

    lineage: the document that digests stand for, where it was kept.
    """

    evidence: Evidence
    entries: tuple[Entry, ...]
    outcomes: tuple[Outcome, ...]
    verdict: Verdict
    lineage: Mapping[str, Any]

    @property
    def verified(self) -> Verified:
        """What `verify` found; nothing where it was not done."""
        done = self.evidence.done("verify")
        return Verified.of(done[1]) if done else Verified()

    @property
    def tested(self) -> Tested:
        """What the test said besides its records."""
        done = self.evidence.done("test")
        return Tested.of(done[1]) if done else Tested()

    def outcome(self, name: str) -> Outcome | None:
        """Of one criterion."""
        return next((o for o in self.outcomes if o.id == name), None)


def read_study(folder: Path) -> Reported:
    """Read a study's folder and judge it.

    Raises:
        ConfigError: it is none, its ledger is broken, or its records are of another plan.
    """
    if not (folder / PLAN).exists():
        raise ConfigError(f"{folder} has no {PLAN}; name the folder of a study")
    plan = read_plan(folder / PLAN)
    entries = read_ledger(folder)
    measurements = read_measurements(folder / RECORDS, plan=plan.identity)
    evidence = gather(plan, measurements, [entry.statement for entry in entries])
    judged = outcomes(evidence)
    return Reported(
        evidence=evidence,
        entries=entries,
        outcomes=judged,
        verdict=verdict(evidence, judged),
        lineage=_lineage(folder / LINEAGE),
    )


def _lineage(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; remove it to report without") from None
    return found if isinstance(found, dict) else {}
