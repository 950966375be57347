"""The page's files: how they are served, and that they reach for nothing outside."""

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

import outpace.server.page
from outpace.server.settings import Settings
from server.live import Live, refused, running

STATIC = Path(outpace.server.page.__file__).parent / "static"
FILES = sorted(STATIC.iterdir())
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function",
    "@import", " style=", " onclick=", "javascript:",
)  # fmt: skip


def test_the_page_is_served_with_a_strict_policy(server: Live) -> None:
    page = server.http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in set(re.findall(r'(?:href|src)="(page/[^"]+)"', page.text)):
        assert server.http.get(f"/{path}").status_code == 200, path
    assert server.http.head("/").status_code == 200
    same = server.http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")


@pytest.mark.parametrize("name", ["nothing.js", "..%2f__init__.py", "%2e%2e%2froutes.py", "a/b"])
def test_other_names_are_not_files(server: Live, name: str) -> None:
    refused(server.http.get(f"/page/{name}"), 404)


def test_the_page_is_open_and_says_whether_a_key_is_needed(server: Live) -> None:
    mark = 'name="outpace-key" content="{}"'
    assert mark.format("none") in server.http.get("/").text
    with running(settings=Settings(port=0, api_keys=("k",))) as locked:
        assert mark.format("needed") in locked.http.get("/").text
        refused(locked.http.get("/outpace/state"), 401)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_file_names_no_other_place_and_runs_no_inline_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "//" not in re.sub(r"(^|\s)// .*", "", text), "an address of somewhere else"
    for forbidden in FORBIDDEN:
        assert forbidden not in text
    assert len(text.splitlines()) <= 300


def test_every_file_is_shipped() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    shipped = project["tool"]["setuptools"]["package-data"]["outpace"]
    for path in FILES:
        assert any(fnmatch(f"server/page/static/{path.name}", pattern) for pattern in shipped)


def test_modules_import_only_what_there_is() -> None:
    names = {path.name for path in FILES}
    for path in STATIC.glob("*.js"):
        for imported in re.findall(r'from "\./([^"]+)"', path.read_text("utf-8")):
            assert imported in names
