"""A tiny random Llama as files on disk, made once per process and removed at its end."""

import atexit
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from outpace.models.files import ModelFiles
from outpace.runtimes.native.load import Loaded, Wish, load_decoder
from runtimes import tiny


@cache
def llama_files() -> ModelFiles:
    root = Path(mkdtemp(prefix="outpace-test-"))
    atexit.register(rmtree, root)
    tiny.model("llama").save_pretrained(root)
    return ModelFiles(
        kind="safetensors",
        name="tiny llama",
        root=root,
        weights=(root / "model.safetensors",),
        config=root / "config.json",
    )


def load_llama(backend: str, weights: str, *, n_pages: int, page_size: int) -> Loaded:
    wish = Wish(weights=weights, backend=backend, n_pages=n_pages, page_size=page_size, threads=1)
    return load_decoder(llama_files(), wish)
