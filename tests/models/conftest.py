"""A tiny model of each format, and a tiny catalog entry with a pip that is a function."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.tiny import FakePip, make_entry, write_folder, write_gguf
from outpace.models import catalog
from outpace.models.catalog import CatalogEntry


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "model")


@pytest.fixture
def entry() -> Iterator[CatalogEntry]:
    """A small model in the catalog for the length of one test."""
    made = make_entry(hub=True)
    catalog.CATALOG[made.name] = made
    yield made
    del catalog.CATALOG[made.name]


@pytest.fixture
def pip(entry: CatalogEntry) -> FakePip:
    return FakePip(entry)
