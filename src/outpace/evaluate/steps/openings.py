"""Who opened a file's confirmation prompts before: noted beside the file, for all studies of it.

A prompt that was looked at in one study is not unseen in another, whatever its plan or salt. The
shipped prompts are left out: they are public, and there to try things.
"""

from datetime import datetime
from pathlib import Path

from outpace.errors import CapacityError, ConfigError
from outpace.evaluate.plan.data import BUILT_IN
from outpace.evaluate.study import Study
from outpace.journal import Journal, read_lines


def noted_at(study: Study) -> Path | None:
    """The file of notes; None for the shipped prompts."""
    source = study.plan.data.source
    if source == BUILT_IN:
        return None
    data = study.base / source
    return data.with_name(f".{data.name}.openings.jsonl")


def elsewhere(study: Study, data: str) -> list[str]:
    """When and in which other studies the same data's confirmation prompts were opened."""
    path = noted_at(study)
    if path is None or not path.exists():
        return []
    mine = str(study.folder.resolve())
    return [
        f"{line.get('at')} in {line.get('study')}"
        for _, line in read_lines(path)
        if line.get("data") == data and line.get("study") != mine
    ]


def note(study: Study, data: str, *, at: datetime) -> str:
    """Note that this study opens them; returns why it could not, or nothing.

    data: the digest of the data.
    """
    path = noted_at(study)
    if path is None:
        return ""
    mine = str(study.folder.resolve())
    known = [line for _, line in read_lines(path)] if path.exists() else []
    if any((line.get("data"), line.get("study")) == (data, mine) for line in known):
        return ""
    try:
        with Journal(path) as journal:
            journal.append({"data": data, "study": mine, "at": at.isoformat(timespec="seconds")})
    except (ConfigError, CapacityError) as error:
        return f"other studies of this data will not know of this opening: {error}"
    return ""
