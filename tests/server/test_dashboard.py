"""The Grafana dashboard asks for what `/metrics` really has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server.live import running
from server.page.load import measuring_model

DASHBOARD = json.loads((Path(__file__).parents[2] / "docs" / "grafana.json").read_text("utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
METRIC = re.compile(r"\b(?:vllm:|outpace_)\w+")
WORDS = {
    "sum", "by", "avg", "rate", "increase", "histogram_quantile", "ignoring", "group_left",
    "label_values",
}  # fmt: skip


def queries() -> Iterator[tuple[str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


@pytest.fixture(scope="module")
def exposed() -> dict[str, set[str]]:
    """Every series' name, with the labels it has (of families without samples: none)."""
    model = measuring_model(context_tokens=4000)
    pool = SimpleNamespace(n_owned=1, n_pages=4)
    model.runtime.stats = lambda: pool  # type: ignore[attr-defined]
    with running(model) as live:
        live.complete(" one two three one two three", max_tokens=300, ignore_eos=True,
                      temperature=0)  # fmt: skip
        text = live.http.get("/metrics").text
    found: dict[str, set[str]] = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found.update({name + end: set() for end in ends})
    for name, labels in re.findall(r"^([\w:]+)\{(.*?)\} ", text, re.MULTILINE):
        found[name] |= set(re.findall(r'(\w+)="', labels))
    return found


@pytest.mark.parametrize(("title", "query"), list(queries()))
def test_a_query_names_series_that_exist(
    exposed: dict[str, set[str]], title: str, query: str
) -> None:
    names = METRIC.findall(query)
    assert names
    assert set(names) <= set(exposed)
    labels = {"model_name", *exposed[names[0]]}
    for group in re.findall(r"by \(([^)]*)\)", query):
        for label in re.split(r",\s*", group):
            # The control switches rarely: its family may have no sample yet.
            assert label in labels or "control_switches" in query
    assert query.count("(") == query.count(")")
    left = METRIC.sub("", query)
    left = re.sub(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)|ignoring \([^)]*\)", "", left)
    assert set(re.findall(r"[a-z_]+", left)) <= WORDS | {"model_name"}


def test_every_counter_is_read_as_a_rate() -> None:
    for title, query in queries():
        for name in re.findall(r"[\w:]+_(?:total|bucket)", query):
            assert re.search(rf"(?:rate|increase)\({re.escape(name)}\{{", query), title


def test_the_panels_lie_side_by_side_and_explain_themselves() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        assert panel["description"]
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert "${datasource}" in json.dumps(PANELS)


def test_the_break_even_is_absent_where_it_is_not_measured() -> None:
    with running() as live:
        live.complete("ab ab ab ab", max_tokens=30)
        assert "outpace_control_breakeven" not in live.http.get("/metrics").text
