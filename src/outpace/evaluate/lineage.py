"""What a result rests on: a digest per field, and the document they are digests of.

Fields (`phases.DEPENDS` says which phase rests on which): plan, data, split, weights, tokenizer,
template, drafter, flags, code, sampling, server, hardware, packages. Where arms differ the field
has the arm behind a slash, as `flags/candidate`. Two runs may be compared only if all fields agree
but those declared as the treatment (`undeclared`).
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import outpace
from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.arms.served.managed import ManagedArm
from outpace.evaluate.plan.arms import EndpointArm, InProcessArm, ServeArm
from outpace.evaluate.plan.document import Plan, canonical

# Model reference -> names and digests of its files; None where there are none to read.
Manifest = Callable[[str], Mapping[str, object] | None]
_PROBE = "The quick brown fox — Größe, naïve café, 東京, 12,345.67!\n\tdef f(x): return x"
_PACKAGE = Path(outpace.__file__).parent
_SOURCES = (".py", ".cpp", ".h", ".inl", ".jsonl", ".json")
_OURS = frozenset({"plan", "data", "split", "sampling"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """fields: short digests or values, for statements. document: what they stand for."""

    fields: Mapping[str, str]
    document: Mapping[str, object]


def lineage(
    plan: Plan, digests: Mapping[str, str], arms: Mapping[str, OpenArm], manifest: Manifest,
    *, program: Mapping[str, object],
) -> Lineage:  # fmt: skip
    """The lineage now. digests: of the data and its split, by those who read it. program: of the
    code that runs (`code()`)."""
    document: dict[str, object] = {
        "plan": plan.identity,
        "data": digests["data"],
        "split": digests["split"],
        "sampling": plan.sampling.model_dump(mode="json"),
        "seed": plan.design.seed,
        "code": dict(program),
        "hardware": hardware(),
        "packages": packages(),
        "server": {},
    }
    for name, arm in arms.items():
        document.update(
            {f"{key}/{name}": value for key, value in _of_arm(plan, arm, manifest).items()}
        )
    document = _shared(document, list(arms))
    fields = {
        key: value if key in _OURS and isinstance(value, str) else digest(value)
        for key, value in document.items()
    }
    return Lineage(fields=fields, document=document)


def undeclared(
    a: Mapping[str, str], b: Mapping[str, str], declared: frozenset[str]
) -> tuple[str, ...]:
    """Fields in which two lineages differ though nobody said so; a name covers all its arms."""
    return tuple(
        key
        for key in sorted({*a, *b})
        if a.get(key) != b.get(key) and not {key, key.partition("/")[0]} & declared
    )


def digest(value: object) -> str:
    """sha256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def _of_arm(plan: Plan, arm: OpenArm, manifest: Manifest) -> dict[str, object]:
    asked = plan.arms[arm.name]
    found: dict[str, object] = {"flags": asked.model_dump(mode="json")}
    if isinstance(arm, LocalArm) and isinstance(asked, InProcessArm):
        return {**found, **_local(arm, plan, manifest)}
    if isinstance(asked, ServeArm) and isinstance(arm, ManagedArm):
        ref = asked.serve.model or (plan.target.model if plan.target else None)
        files = manifest(ref) if ref is not None else None
        found["weights"] = (files or {}).get("weights") or f"{ref}, as its engine finds it"
        found["tokenizer"] = (files or {}).get("files") or "as its engine finds it"
        flags = [part for part in arm.server.command if part != str(arm.server.port)]
        found["flags"] = {**asked.model_dump(mode="json"), "command": flags}
        found["template"] = {"ids": arm.tokenize(_MESSAGES)}
    elif isinstance(asked, EndpointArm) and isinstance(arm, RemoteArm):
        found["weights"] = f"{asked.model}, as the endpoint names it"
        found["tokenizer"] = found["template"] = {"ids": arm.tokenize(_MESSAGES)}
    found["drafter"] = "the server's own"
    found["server"] = dict(arm.facts)
    return found


_MESSAGES = ({"role": "user", "content": _PROBE},)


def _local(arm: LocalArm, plan: Plan, manifest: Manifest) -> dict[str, object]:
    model = arm.model
    files = manifest(plan.target.model) if plan.target is not None else None
    drafter = arm.arm.drafter
    return {
        "weights": {
            "runtime": model.runtime.traits.name,
            "digest": model.runtime.traits.digest,
            "files": (files or {}).get("weights"),
        },
        "tokenizer": {
            "files": (files or {}).get("files"),
            "probe_ids": model.tokenizer.encode(_PROBE, special=True),
        },
        "template": model.tokenizer.template,
        "drafter": {
            "name": drafter,
            "files": [
                (manifest(part.partition(":")[2]) or {}).get("weights")
                for part in drafter.removeprefix("mix:").split("+")
                if part.startswith("model:")
            ],
        },
    }


def _shared(document: Mapping[str, object], arms: Seq[str]) -> dict[str, object]:
    """Fields that all arms have alike, without their arms."""
    found = dict(document)
    for field in sorted({key.partition("/")[0] for key in document if "/" in key}):
        keys = [f"{field}/{arm}" for arm in arms]
        values = [document.get(key) for key in keys]
        if field != "flags" and all(canonical(v) == canonical(values[0]) for v in values):
            for key in keys:
                found.pop(key, None)
            found[field] = values[0]
    return found


def code() -> dict[str, object]:
    """outpace's version and sources; the commit and its changes too where it is a checkout."""
    sources = sorted(p for p in _PACKAGE.rglob("*") if p.suffix in _SOURCES and p.is_file())
    whole = hashlib.sha256()
    for path in sources:
        whole.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    found: dict[str, object] = {"version": outpace.__version__, "sources": whole.hexdigest()}
    commit = _git("rev-parse", "HEAD")
    if commit is not None:
        changes = _git("diff", "HEAD", "--", str(_PACKAGE)) or ""
        found["commit"] = commit
        found["changes"] = hashlib.sha256(changes.encode()).hexdigest() if changes else "none"
    return found


def hardware() -> dict[str, object]:
    """The machine, as far as it says."""
    return {
        "machine": platform.machine(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "threads": {k: os.environ.get(k) for k in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")},
        "memory_bytes": _memory_bytes(),
    }


def packages() -> dict[str, str]:
    """Everything installed, by name."""
    found = {d.metadata["Name"].lower(): d.version for d in distributions() if d.metadata["Name"]}
    return {"python": platform.python_version(), **dict(sorted(found.items()))}


def _git(*args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(_PACKAGE), *args],  # noqa: S607 - the user's own git
            capture_output=True, text=True, check=False, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        return next(x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def read_document(path: Path) -> Mapping[str, Any]:
    """The document of a study, for reports and comparisons; none = empty."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text("utf-8"))
    return found if isinstance(found, dict) else {}
