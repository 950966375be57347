"""The verdict as an in-toto Statement with the predicate `test-result` (v0.1).

PASSED: supported and confirmed. WARNED: supported but unconfirmed, or inconclusive. FAILED:
refuted or invalid. The statement is not signed; whoever releases signs it.
"""

import hashlib
from collections.abc import Mapping

from outpace.evaluate.plan.document import CANDIDATE, canonical
from outpace.evaluate.report.shape import Report
from outpace.evaluate.report.study import Reported

_TYPE = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
Document = Mapping[str, object]


def statement(study: Reported, report: Report, *, records_sha256: str) -> Document:
    """Its subject is the candidate: the digest of its whole lineage."""
    lineage = dict(study.entries[-1].statement.lineage) if study.entries else {}
    mine = {
        key: value for key, value in lineage.items() if key.partition("/")[2] in ("", CANDIDATE)
    }
    by_status = {
        name: [c.id for c in report.criteria if c.status in statuses]
        for name, statuses in (
            ("passedTests", ("PASS",)),
            ("warnedTests", ("INCONCLUSIVE",)),
            ("failedTests", ("FAIL", "INVALID")),
        )
    }
    return {
        "_type": _TYPE,
        "subject": [
            {"name": f"{report.decision.name}/{CANDIDATE}", "digest": {"sha256": _digest(mine)}}
        ],
        "predicateType": _PREDICATE,
        "predicate": {
            "result": result(report),
            "configuration": [
                {"name": "plan.yaml", "digest": {"sha256": report.decision.plan}},
                {"name": "records.jsonl", "digest": {"sha256": records_sha256}},
                {"name": "ledger.jsonl", "digest": {"sha256": report.judgement.head}},
            ],
            **by_status,
        },
    }


def _digest(fields: Mapping[str, str]) -> str:
    return hashlib.sha256(canonical(fields).encode("utf-8", "surrogatepass")).hexdigest()


def result(report: Report) -> str:
    """PASSED, WARNED or FAILED."""
    if report.judgement.conclusion in ("REFUTED", "INVALID"):
        return "FAILED"
    passed = report.judgement.conclusion == "SUPPORTED" and report.judgement.confirmed
    return "PASSED" if passed else "WARNED"
