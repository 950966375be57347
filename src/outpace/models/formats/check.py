"""What every weight file must pass before anyone maps it: its kind, its borders, its tensors.

Two formats are read, safetensors and GGUF, because both are data and nothing but data. A pickle is
a program; a file that is one is refused whatever its name says. This file also holds `TensorSpan`,
the one shape both readers reduce a header to: where a tensor's bytes lie.
"""

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from outpace.errors import ModelCorrupt, ModelNotFound, ModelUnsupported, UnsafeFile

Kind = Literal["gguf", "safetensors"]

PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
ALLOWED = "allowed are safetensors and GGUF files, which hold data and no code"
CONVERT = (
    "to convert a checkpoint you trust, load it once with transformers in an environment you can "
    "throw away and call model.save_pretrained(NEW_FOLDER), which writes safetensors"
)
_MAX_HEADER_BYTES = 100_000_000  # the safetensors format's own limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpan:
    """Where one tensor lies: `n_bytes` from `offset_bytes`, counted from the start of `path`.

    `shape` is row-major, outermost first, in both formats. `dtype` is the format's own name for the
    storage: F32, F16, BF16, I8, Q4_1, Q6_K, ...
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    offset_bytes: int
    n_bytes: int


def file_kind(path: Path) -> Kind:
    """Say which format a file is by its content, never by its name alone.

    Raises ModelNotFound (no regular file), UnsafeFile (a pickle), ModelCorrupt (empty, a pointer
    or a web page in place of weights) and ModelUnsupported (anything else).
    """
    if not path.is_file():
        raise ModelNotFound(f"{path} is not a regular file; give a .gguf file or a model folder")
    with path.open("rb") as stream:
        head = stream.read(64)
    refuse_pickle(path, head)
    if head.startswith(b"GGUF"):
        return "gguf"
    if _begins_safetensors(head) and path.suffix.lower() != ".gguf":
        return "safetensors"
    if path.suffix.lower() in (".gguf", ".safetensors") or not head:
        raise _not_weights(path, head)
    raise ModelUnsupported(
        f"{path} begins with {head[:8]!r}, which is neither GGUF nor safetensors; {ALLOWED}"
    )


def _begins_safetensors(head: bytes) -> bool:
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= _MAX_HEADER_BYTES


def refuse_pickle(path: Path, head: bytes) -> None:
    """Raise UnsafeFile when the name or the first bytes (64 are enough) say pickle."""
    by_name = path.suffix.lower() in PICKLE_SUFFIXES
    # A safetensors header of, say, 640 bytes begins as a pickle does (80 02): look further first.
    by_content = head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    by_content = by_content and not _begins_safetensors(head)
    if head.startswith(b"PK\x03\x04"):
        by_content = _zip_holds_pickle(path)
    if by_name or by_content:
        found = (
            "is a pickle" if by_content else f"has the ending {path.suffix} of pickle checkpoints"
        )
        raise UnsafeFile(
            f"{path} {found}, and a pickle can run any code when it is read; {ALLOWED}; {CONVERT}"
        )


def _zip_holds_pickle(path: Path) -> bool:
    """Whether a zip holds a pickle, as torch.save writes it (NAME/data.pkl)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(".pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return True  # a damaged zip is no weight file either; refuse it the same way


def _not_weights(path: Path, head: bytes) -> ModelCorrupt:
    size_bytes = path.stat().st_size
    want = "'GGUF'" if path.suffix.lower() == ".gguf" else "a safetensors header"
    if head.startswith(b"version https://git-lfs"):
        why = "it is a Git LFS pointer, not the weights; run `git lfs pull` in its repository"
    elif head.lstrip()[:1] == b"<":
        why = "it looks like a web page saved in place of the weights; download it again"
    elif size_bytes == 0:
        why = "the file is empty; download it again"
    else:
        why = "the file is damaged or was cut short; download it again"
    return ModelCorrupt(
        f"{path} ({size_bytes} bytes) begins with {head[:8]!r} where {want} is expected: {why}"
    )


def check_spans(path: Path, spans: Iterable[TensorSpan]) -> None:
    """Refuse tensors that leave their file, share bytes, or share a name.

    Raises ModelCorrupt with the numbers found and expected.
    """
    size_bytes = path.stat().st_size
    ordered = sorted(spans, key=lambda span: (span.offset_bytes, span.n_bytes))
    seen: set[str] = set()
    border, before = 0, ""
    for span in ordered:
        end = span.offset_bytes + span.n_bytes
        if end > size_bytes:
            raise ModelCorrupt(
                f"{path} is cut short: tensor {span.name!r} ends at byte {end}, the file has "
                f"{size_bytes} bytes ({end - size_bytes} missing); download it again"
            )
        if span.name in seen:
            raise ModelCorrupt(f"{path} lists tensor {span.name!r} twice; each name must be unique")
        if span.offset_bytes < border and span.n_bytes:
            raise ModelCorrupt(
                f"{path} is inconsistent: tensor {span.name!r} begins at byte {span.offset_bytes}, "
                f"inside {before!r}, which ends at byte {border}; download or convert it again"
            )
        seen.add(span.name)
        if span.n_bytes:
            border, before = end, span.name
