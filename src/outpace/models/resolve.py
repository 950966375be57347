"""Turn what a user wrote for a model into files on this disk.

Accepted, in this order: a catalog name (brought here if need be); a path to a GGUF or safetensors
file or to a folder; a hub id `org/name[@revision]`, or one file of it,
`org/name/file.gguf[@revision]`. A folder named like a catalog entry is reached as `./name`.
"""

from pathlib import Path
from typing import Final

from outpace.errors import ModelCorrupt, ModelNotFound, ModelUnsupported, OfflineError, UnsafeFile
from outpace.models.catalog import CATALOG, AcceptTerms, did_you_mean
from outpace.models.fetch import Progress
from outpace.models.files import ModelFiles
from outpace.models.formats.check import ALLOWED, CONVERT, PICKLE_SUFFIXES, file_kind
from outpace.models.formats.safetensors_header import INDEX_NAME, read_index
from outpace.models.hub import Hub
from outpace.models.pull import DEFAULT_TOOLS, Tools, pull

CONFIG_NAME: Final = "config.json"
TOKENIZER_NAMES: Final = (
    "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt", "chat_template.jinja",
    "chat_template.json",
)  # fmt: skip
SIDE_NAMES: Final = (CONFIG_NAME, "generation_config.json", *TOKENIZER_NAMES)
WHAT_A_REF_IS: Final = (
    "a model is a known name, a .gguf file, a folder with config.json and .safetensors files (or "
    "one .gguf), or a hub id ORG/NAME[@REVISION]"
)


def resolve(
    ref: str,
    *,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    accept_terms: AcceptTerms = False,
    tools: Tools = DEFAULT_TOOLS,
) -> ModelFiles:
    """Find a model's files, downloading a catalog name or a hub id that is not here yet.

    Weight headers are not read: `weights.open_weights` checks and reads them. Raises ModelNotFound,
    ModelCorrupt, ModelUnsupported, UnsafeFile, OfflineError, and what `pull` raises.
    """
    if ref in CATALOG:
        path = pull(
            ref, cache_dir=cache_dir, progress=progress, accept_terms=accept_terms, tools=tools
        )
        return _from_file(path, name=ref)
    try:
        found = _from_path(ref)
    except OSError as error:
        raise ModelNotFound(
            f"{ref[:200]!r} cannot be read as a path ({error.strerror or error}); {WHAT_A_REF_IS}"
        ) from error
    if found is not None:
        return found
    if _is_hub_id(ref):
        return _from_hub(ref, tools.hub)
    raise ModelNotFound(f"no model {ref!r}: {did_you_mean(ref)}; {WHAT_A_REF_IS}")


def _from_path(ref: str) -> ModelFiles | None:
    """The model at a local path, or None when nothing is there."""
    if not ref.strip():
        return None
    path = Path(ref)
    if ref.startswith("~/"):
        path = path.expanduser()
    if path.is_dir():
        return _from_folder(path, name=path.resolve().name)
    return _from_file(path, name=path.stem) if path.exists() else None


def _from_file(path: Path, *, name: str) -> ModelFiles:
    kind = file_kind(path)
    if kind == "gguf":
        return ModelFiles(kind=kind, name=name, root=path.parent, weights=(path,))
    return _safetensors(path.parent, (path,), name=path.resolve().parent.name)


def _from_folder(root: Path, *, name: str) -> ModelFiles:
    files = sorted(path for path in root.iterdir() if path.is_file())
    if (root / INDEX_NAME).is_file():
        shards = sorted(set(read_index(root / INDEX_NAME).values()))
        return _safetensors(
            root, tuple(root / s for s in shards), name=name, index=root / INDEX_NAME
        )
    tensors = [path for path in files if path.suffix == ".safetensors"]
    if root / "model.safetensors" in tensors:
        tensors = [root / "model.safetensors"]
    if len(tensors) == 1:
        return _safetensors(root, tuple(tensors), name=name)
    if tensors:
        raise ModelCorrupt(
            f"{root} has {len(tensors)} .safetensors files and no {INDEX_NAME} that says how they "
            f"belong together; download the index, or name one file"
        )
    ggufs = [path for path in files if path.suffix == ".gguf"]
    if len(ggufs) == 1:
        return _from_file(ggufs[0], name=name)
    if ggufs:
        raise ModelNotFound(
            f"{root} has {len(ggufs)} .gguf files ({', '.join(p.name for p in ggufs[:4])}"
            f"{', ...' if len(ggufs) > 4 else ''}); name the one you want"
        )
    _refuse_pickle_folder(root, [path.name for path in files])
    raise ModelNotFound(f"{root} holds no .safetensors and no .gguf file; {WHAT_A_REF_IS}")


def _safetensors(
    root: Path, weights: tuple[Path, ...], *, name: str, index: Path | None = None
) -> ModelFiles:
    for path in weights:
        if path.name.startswith("adapter_"):
            raise ModelUnsupported(
                f"{path} is an adapter; merge it into its base model and save that"
            )
        if file_kind(path) != "safetensors":
            raise ModelUnsupported(f"{path} is a GGUF file named .safetensors; rename it to .gguf")
    if not (root / CONFIG_NAME).is_file():
        raise ModelCorrupt(
            f"{root} has weights but no {CONFIG_NAME}, which says what model they are; download it "
            f"from where the weights came from"
        )
    return ModelFiles(
        kind="safetensors",
        name=name,
        root=root,
        weights=weights,
        index=index,
        config=root / CONFIG_NAME,
        tokenizer=tuple(root / n for n in TOKENIZER_NAMES if (root / n).is_file()),
    )


def _refuse_pickle_folder(where: object, names: list[str]) -> None:
    """Raise UnsafeFile when the only weights of a folder or repository are pickles."""
    pickles = [n for n in names if Path(n).suffix in PICKLE_SUFFIXES and n != "training_args.bin"]
    if pickles:
        raise UnsafeFile(
            f"{where} holds its weights only as pickles ({', '.join(pickles[:3])}), and a pickle "
            f"can run any code when it is read; {ALLOWED}; {CONVERT}"
        )


def _is_hub_id(ref: str) -> bool:
    body = ref.partition("@")[0]
    parts = body.split("/")
    is_file = Path(parts[-1]).suffix.lower() in {".gguf", ".safetensors", *PICKLE_SUFFIXES}
    if is_file != (len(parts) > 2):
        return False
    word = all(part and part.strip(".") and not set(part) & set(" \\:~") for part in parts)
    return len(parts) >= 2 and word


def _from_hub(ref: str, hub: Hub) -> ModelFiles:
    body, _, revision = ref.partition("@")
    org, name, *inside = body.split("/")
    repo, wanted = f"{org}/{name}", "/".join(inside) or None
    trouble = hub.trouble()
    if trouble is None:
        commit, names = hub.listing(repo, revision or None)
        chosen = _choose(repo, names, wanted)
        folder = hub.snapshot(repo, commit, chosen)
        wanted = chosen[0] if chosen[0].endswith(".gguf") else None
    else:
        found = hub.cached(repo, revision or None)
        if found is None:
            raise OfflineError(
                f"no file or folder {ref!r} here, and the hub is {trouble}; it is not in the "
                f"hub's cache either. Connect and try again, or give a path; {WHAT_A_REF_IS}"
            )
        folder = found
    if wanted is not None:
        return _from_file(folder / wanted, name=ref)
    return _from_folder(folder, name=ref)


def _choose(repo: str, names: tuple[str, ...], wanted: str | None) -> list[str]:
    """Which files of a repository to bring: weights, then small text files (a GGUF comes alone)."""
    here = [name for name in names if "/" not in name]
    side = [name for name in here if name in SIDE_NAMES]
    ggufs = [name for name in names if name.endswith(".gguf")]
    if wanted is not None:
        if wanted not in names:
            raise ModelNotFound(f"{repo} has no file {wanted!r}; its GGUF files: {ggufs or 'none'}")
        return [wanted]
    if INDEX_NAME in here:
        shards = [name for name in here if name.endswith(".safetensors")]
        return [INDEX_NAME, *[n for n in shards if n.startswith("model-")], *side]
    tensors = [name for name in here if name.endswith(".safetensors")]
    if "model.safetensors" in tensors:
        return ["model.safetensors", *side]
    if tensors:
        return [*tensors, *side]
    if len(ggufs) == 1:
        return ggufs
    if ggufs:
        raise ModelNotFound(
            f"{repo} has {len(ggufs)} GGUF files; name one as {repo}/FILE: {', '.join(ggufs[:8])}"
        )
    _refuse_pickle_folder(repo, here)
    raise ModelNotFound(f"{repo} holds no .safetensors and no .gguf file; {WHAT_A_REF_IS}")
