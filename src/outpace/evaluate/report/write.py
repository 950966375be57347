"""Writes a study's reports into its folder, each file whole or not at all."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from outpace.errors import ConfigError
from outpace.evaluate.measurement import RECORDS
from outpace.evaluate.report.attest import statement
from outpace.evaluate.report.build import report_of
from outpace.evaluate.report.page.render import render
from outpace.evaluate.report.profile import profile
from outpace.evaluate.report.shape import Report, adapter
from outpace.evaluate.report.study import read_study

JSON, PAGE = "report.json", "report.html"
PROFILE, ATTESTATION = "speculation_profile.json", "test-result.intoto.json"


def write(folder: Path) -> Report:
    """Report a study; what was reported before is replaced.

    Raises:
        ConfigError: the folder is no study, its ledger is broken, or it cannot be written to.
    """
    study = read_study(folder)
    report = report_of(study)
    records = folder / RECORDS
    digest = hashlib.sha256(records.read_bytes() if records.exists() else b"").hexdigest()
    _put(folder / JSON, _text(adapter().dump_python(report, mode="json")))
    _put(folder / PAGE, render(report, study.evidence.rows))
    _put(folder / PROFILE, _text(profile(study, report)))
    _put(folder / ATTESTATION, _text(statement(study, report, records_sha256=digest)))
    return report


def _text(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _put(path: Path, text: str) -> None:
    draft = path.with_name(path.name + ".new")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; free the disk or name another folder"
        ) from None
