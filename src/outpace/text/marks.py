"""Which tokens open and end a text, and the chat template, as the model's files say.

The same facts are spread over five JSON files in a folder, over metadata fields in a GGUF file and
over attributes of a tokenizer object; this file is the only place that knows where.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer as Backend

from outpace.errors import ModelCorrupt

# Ends of a turn that chat models emit whether or not their files list them as ends of a text.
TURN_ENDS: Final = (
    "<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|end_of_turn|>",
)  # fmt: skip
MAX_JSON_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """bos_id and whether prompts get it; the tokenizer's own end and all ids that end a text; the
    chat template's source."""

    bos_id: int | None
    add_bos: bool
    eos_id: int | None
    eos_ids: frozenset[int]
    template: str | None


def from_folder(root: Path, backend: Backend) -> Marks:
    """Read tokenizer_config.json and its neighbours; every one of them may be missing.

    Raises:
        ModelCorrupt: one of them is not JSON.
    """
    names = _json(root / "special_tokens_map.json") | _json(root / "tokenizer_config.json")
    ends = [names.get("eos_token")]
    for file in ("generation_config.json", "config.json"):
        found = _json(root / file)
        text = found.get("text_config")
        for section in (found, text if isinstance(text, dict) else {}):
            ends.append(section.get("eos_token_id"))
    bos_id = _id(names.get("bos_token"), backend)
    opens = _opens_with(backend, bos_id)
    add_bos = names.get("add_bos_token")
    return Marks(
        bos_id=bos_id,
        add_bos=opens if add_bos is None else bool(add_bos),
        eos_id=_id(names.get("eos_token"), backend),
        eos_ids=_ends(ends, backend),
        template=_template(root, names),
    )


def from_gguf(fields: Mapping[str, object], backend: Backend) -> Marks:
    """Read a GGUF file's `tokenizer.*` fields."""
    get = fields.get
    ends = [get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    bos = get("tokenizer.ggml.bos_token_id")
    template = get("tokenizer.chat_template")
    # Files without the flag: llama.cpp opens SentencePiece texts with BOS, and no others.
    default = get("tokenizer.ggml.model") == "llama"
    return Marks(
        bos_id=bos if isinstance(bos, int) else None,
        add_bos=bool(get("tokenizer.ggml.add_bos_token", default)),
        eos_id=_id(ends[0], backend),
        eos_ids=_ends(ends, backend),
        template=template if isinstance(template, str) else None,
    )


def from_object(tokenizer: Any, backend: Backend) -> Marks:
    """Read a tokenizer object of transformers (or a bare one, which knows no such marks)."""
    bos = getattr(tokenizer, "bos_token_id", None)
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = template.get("default")
    eos = getattr(tokenizer, "eos_token_id", None)
    return Marks(
        bos_id=bos,
        add_bos=_opens_with(backend, bos),
        eos_id=_id(eos, backend),
        eos_ids=_ends([eos], backend),
        template=template if isinstance(template, str) else None,
    )


def _opens_with(backend: Backend, bos_id: int | None) -> bool:
    """Whether the tokenizer's own post-processor puts BOS before a text."""
    if bos_id is None or backend.post_processor is None:
        return False
    return backend.encode("a", add_special_tokens=True).ids[:1] == [bos_id]


def _ends(found: Iterable[object], backend: Backend) -> frozenset[int]:
    ids: set[int] = set()
    for entry in found:
        for one in entry if isinstance(entry, list) else [entry]:
            index = _id(one, backend)
            if index is not None:
                ids.add(index)
    special = {t.content: i for i, t in backend.get_added_tokens_decoder().items() if t.special}
    ids.update(special[name] for name in TURN_ENDS if name in special)
    return frozenset(ids)


def _id(entry: object, backend: Backend) -> int | None:
    """An id given as a number, a string, or an object with the string as `content`."""
    if isinstance(entry, dict):
        entry = entry.get("content")
    if isinstance(entry, str):
        return backend.token_to_id(entry)
    return entry if isinstance(entry, int) and not isinstance(entry, bool) else None


def _template(root: Path, names: Mapping[str, Any]) -> str | None:
    """The chat template: its own file first, as transformers does, then the configuration's."""
    plain = root / "chat_template.jinja"
    if plain.is_file():
        return plain.read_text("utf-8")
    found = _json(root / "chat_template.json").get("chat_template", names.get("chat_template"))
    if isinstance(found, list):  # several named templates
        named = {entry.get("name"): entry.get("template") for entry in found}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    size_bytes = path.stat().st_size
    try:
        if size_bytes > MAX_JSON_BYTES:
            raise ValueError(f"{size_bytes} bytes, at most {MAX_JSON_BYTES} are read")
        found = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ModelCorrupt(f"{path} is not readable JSON ({error}); download it again") from error
    return found if isinstance(found, dict) else {}
