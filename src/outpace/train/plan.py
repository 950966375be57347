"""What a training run is asked to do, where it works, and how it reports."""

import json
import shutil
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from outpace.errors import ConfigError, DiskSpaceError

# What a run leaves free on the disk beside its own files.
_SPARE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """Sizes of a head that do not follow from its target."""

    embed: int = 128
    inner: int = 1024
    root_inner: int = 1152
    draft: int = 4096


ARCHS: Mapping[str, Arch] = {
    "small": Arch(embed=64, inner=512, root_inner=512, draft=2048),
    "standard": Arch(),
    "large": Arch(embed=128, inner=1536, root_inner=1536, draft=8192),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPlan:
    """What a run does. Everything but `minutes` and `max_feature_bytes` decides the
    result; the corpus does not depend on how long is trained.

    tokens: of the corpus, prompts included. minutes: for everything; 0 = as long as it takes; the
    corpus and the steps then become what fits. epochs: how often each answer is learned from;
    steps, if not 0, say it outright.
    prompts: the user's own, in place of turns the target writes. excluded: prompt hashes.
    """

    tokens: int = 2_000_000
    minutes: float = 0.0
    epochs: float = 4.0
    steps: int = 0
    seed: int = 0
    arch: str = "standard"
    per_batch: int = 16
    max_answer: int = 256
    max_feature_bytes: int = 40 << 30
    prompts: Seq[str] = ()
    excluded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.arch not in ARCHS:
            raise ConfigError(f"arch {self.arch!r}; allowed: {', '.join(ARCHS)}")
        wrong = [
            n for n in ("tokens", "epochs", "per_batch", "max_answer") if getattr(self, n) <= 0
        ]
        if wrong or self.minutes < 0:
            raise ConfigError(f"{', '.join(wrong) or 'minutes'} must be more than 0")

    def identity(self) -> dict[str, Any]:
        """What a run that goes on must share."""
        own = asdict(self)
        for name in ("minutes", "max_feature_bytes", "epochs", "steps"):
            own.pop(name)
        for name in ("prompts", "excluded"):
            own[name] = sha256("\n".join(sorted(own[name])).encode()).hexdigest()[:16]
        return own


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Where a run is: the phase, the share of it that is done, a line of words."""

    phase: str
    share: float
    words: str


Tell = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder with what is decided once and a later run must go on with.

    Raises:
        ConfigError: the folder holds a run with other options.
    """

    folder: Path

    def settle(self, options: Mapping[str, Any]) -> None:
        """Begin, or go on with the same options."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = self.noted().get("options")
        if found is None:
            self.note(options=dict(options))
            return
        other = {k: v for k, v in found.items() if options.get(k) != v}
        if other:
            raise ConfigError(
                f"{self.folder} holds a run with {other}; go on with the same options, or name "
                "another folder with --out"
            )

    def noted(self) -> dict[str, Any]:
        """What was noted so far."""
        path = self.folder / "plan.json"
        return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}

    def note(self, **facts: Any) -> None:
        """Note facts, whole or not at all."""
        self.write("plan.json", {**self.noted(), **facts})

    def spent(self, phase: str, seconds: float) -> None:
        """Add to the seconds of a phase, over all runs that went on here."""
        times = dict(self.noted().get("seconds", {}))
        times[phase] = round(times.get(phase, 0.0) + seconds, 1)
        self.note(seconds=times)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """A JSON file beside them."""
        part = self.folder / f"{name}.part"
        part.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        part.replace(self.folder / name)

    def need(self, n_bytes: int, what: str) -> None:
        """Refuse before the disk is full.

        Raises:
            DiskSpaceError: there is less room than that.
        """
        free = shutil.disk_usage(self.folder).free
        if free < n_bytes + _SPARE_BYTES:
            raise DiskSpaceError(
                f"{what} takes about {n_bytes >> 20} MB and {free >> 20} MB are free in "
                f"{self.folder}; make room, or give fewer --tokens",
                needed_bytes=n_bytes,
                free_bytes=free,
            )
