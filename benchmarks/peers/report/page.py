"""The results for people: a part of `docs/benchmarks.md`, and its chart.

Only what stands between the two marks is rewritten; the rest of the page belongs to others.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any  # the document as JSON gave it back

from benchmarks.peers.report.chart import Bar, draw

BEGIN, END = "<!-- peers:begin -->", "<!-- peers:end -->"
_CHART = "benchmarks-peers.svg"
_NEW_PAGE = f"# Benchmarks\n\n{BEGIN}\n{END}\n"
Document = dict[str, Any]


def write_page(document: Document, path: Path) -> None:
    """Put the results into the page, making it if there is none, and the chart beside it."""
    old = path.read_text(encoding="utf-8") if path.exists() else _NEW_PAGE
    if BEGIN not in old or END not in old:
        old = f"{old.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    body = "\n".join(_sections(document))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{BEGIN}\n{body}\n{END}{after}", encoding="utf-8")
    bars = list(_bars(document))
    if bars:
        title = "Tokens a second after the first: median over prompts, 95 % interval"
        path.with_name(_CHART).write_text(draw(bars, title), encoding="utf-8")


def _sections(doc: Document) -> Iterator[str]:
    yield from _head(doc)
    yield from _verdict(doc)
    yield from _control(doc)
    yield f"\n![Tokens a second per engine]({_CHART})\n"
    yield from _arms(doc)
    yield from _categories(doc)
    yield from _texts(doc)
    yield from _limits(doc)
    yield from _versions(doc)


def _head(doc: Document) -> Iterator[str]:
    plan, where, foreign = doc["plan"], doc["machine"], doc["foreign_cpu"]
    yield "## Beside other engines\n"
    yield (
        f"{doc['model']['file']} on {where['cpu']}, {plan['threads']} threads, one stream, greedy; "
        f"{len(plan['prompts'])} prompts, at most {plan['n_tokens']} tokens, {plan['n_blocks']} "
        f"blocks planned, {max(a['n_answers'] for a in doc['per_arm'].values())} answers an arm "
        f"measured. All arms took turns in one run on {doc['date']}, outpace at "
        f"{', '.join(f'`{c}`' for c in doc['commits'])}."
        " Intervals are 95 % bootstrap intervals over prompts; ratios are geometric means of"
        " paired ratios.\n"
    )
    yield f"```bash\n{doc['command']}\n```\n"
    if doc["ended"] != "complete":
        yield f"**Not all of the plan was measured**: the run ended by {doc['ended']}.\n"
    load = doc["load"]
    if load["measured_at"] > load["wanted"]:
        yield (
            f"**The machine was not quiet**: load average {load['measured_at']} when measuring "
            f"began ({load['wanted']} was wanted).\n"
        )
    if where["nice"] < 0:
        yield f"All arms ran at raised priority (nice {where['nice']}).\n"
    if foreign["median"] is not None:
        yield (
            f"CPU time used by anything else during the runs: median {foreign['median']:.1%}, "
            f"95 % of them below {foreign['p95']:.1%}, at most {foreign['max']:.1%}.\n"
        )


def _verdict(doc: Document) -> Iterator[str]:
    for key, what in (
        ("plain_vs_best_peer_plain", "plain decoding against the best peer's plain decoding"),
        ("auto_vs_best_peer", "speculative decoding against the best peer's best mode"),
        ("prefill_vs_best_peer", "reading 512 tokens against the peer that reads fastest"),
    ):
        found = doc["comparisons"].get(key)
        if found is None:
            yield f"* {what}: not measured"
            continue
        other = doc["arms"][found["other"]]["label"]
        yield f"* **{_word(found['ratio'])}**, {what} ({other}): {_interval(found['ratio'])} ×"


def _control(doc: Document) -> Iterator[str]:
    """The same bytes measured twice show what a ratio of this run is worth."""
    found = doc["comparisons"].get("q8_plain_vs_default")
    if found:
        yield (
            f"\nA control: outpace asked for q8 against its default, plain, "
            f"{_interval(found['ratio'])} ×. Where a file holds 4-bit blocks both keep them as "
            "they are, so this is the same work measured twice."
        )


def _word(ratio: dict[str, float | None]) -> str:
    """Ahead, behind or undecided, by the interval alone."""
    low, high = ratio["low"], ratio["high"]
    if low is not None and low > 1:
        return "Ahead"
    return "Behind" if high is not None and high < 1 else "Undecided"


def _interval(e: dict[str, float | None] | None, digits: int = 2, factor: float = 1.0) -> str:
    if e is None or e["value"] is None:
        return "–"
    value = f"{e['value'] * factor:.{digits}f}"
    if e["low"] is None or e["high"] is None:
        return value
    return f"{value} [{e['low'] * factor:.{digits}f}, {e['high'] * factor:.{digits}f}]"


def _table(head: list[str], rows: list[list[str]], *, numbers: bool = True) -> str:
    marks = ["---"] + ["---:" if numbers else "---"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *rows]) + "\n"


def _arms(doc: Document) -> Iterator[str]:
    streams = any(a["streams_tokens_per_s"] for a in doc["per_arm"].values())
    head = ["", "tokens/s after the first", "against own plain", "first token, ms"]
    head += ["prefill of 512, tokens/s"]
    if streams:
        head += [f"{doc['plan']['n_streams']} streams, tokens/s"]
    rows = []
    for name, arm in doc["arms"].items():
        numbers = doc["per_arm"][name]
        own = doc["comparisons"].get(f"{name}_vs_own_plain", {}).get("ratio")
        row = [arm["label"]]
        if name in doc["left_out"] and not numbers["n_answers"]:
            row.append("left out")
        else:
            row.append(_interval(numbers["decode_tokens_per_s"], 0))
        row += [
            f"{_interval(own)} ×" if own else "",
            _interval(numbers["first_token_s"], 0, 1000),
            _interval(numbers["prefill_tokens_per_s"], 0),
        ]
        if streams:
            row.append(_interval(numbers["streams_tokens_per_s"], 0))
        rows.append(row)
    yield _table(head, rows)
    for name, why in doc["left_out"].items():
        yield f"* {doc['arms'][name]['label']} was left out: {why}"
    if doc["left_out"]:
        yield ""


def _categories(doc: Document) -> Iterator[str]:
    head = ["category", "prompts", "outpace plain", "outpace auto", "best peer's best mode"]
    head += ["auto against it"]
    rows = []
    for name, found in doc["categories"].items():
        versus = found["comparisons"].get("auto_vs_best_peer")
        per_arm = found["per_arm"]
        best = "–"
        if versus:
            other = versus["other"]
            best = f"{doc['arms'][other]['label']}: {_interval(per_arm[other], 0)}"
        rows.append(
            [
                name,
                str(found["n"]),
                _interval(per_arm.get("outpace-plain"), 0),
                _interval(per_arm.get("outpace-auto"), 0),
                best,
                f"{_interval(versus['ratio'])} ×" if versus else "–",
            ]
        )
    yield "### By category\n"
    yield "Tokens a second after the first; the best peer is chosen anew in each category.\n"
    yield _table(head, rows)


def _texts(doc: Document) -> Iterator[str]:
    yield "### Whether texts agree\n"
    yield "Answers whose token ids are all the same, of those that both arms gave.\n"
    rows = [
        [doc["arms"][name]["label"], _same(found["own_plain"]), _same(found["outpace_plain"])]
        for name, found in doc["same_text"].items()
    ]
    yield _table(["", "as its own plain decoding", "as outpace plain"], rows)


def _same(found: Document | None) -> str:
    return "" if found is None else f"{found['same']} of {found['n']}"


def _limits(doc: Document) -> Iterator[str]:
    yield "### What was not equal\n"
    yield from (f"* *{name}*: {text}" for name, text in doc["not_equal"].items())
    yield ""


def _versions(doc: Document) -> Iterator[str]:
    yield "### Versions and settings\n"
    rows = []
    for arm in doc["arms"].values():
        versions = ", ".join(f"{k} {v}" for k, v in arm.get("versions", {}).items())
        idle = arm["idle_cpu"]
        rows.append(
            [
                arm["label"],
                versions,
                str(arm.get("weights", "")),
                str(arm.get("speculation", "")),
                "" if idle is None else f"{idle:.2f}",
            ]
        )
    head = ["", "versions", "weights", "speculation", "cores used while idle"]
    yield _table(head, rows, numbers=False)
    where = doc["machine"]
    yield (
        f"{where['cores']} cores ({', '.join(where['instructions'])}), {where['memory_gib']} GiB, "
        f"{where['system']}, Python {where['python']}; model sha256 `{doc['model']['sha256']}`. "
        "Every single run is in `benchmarks/results/peers.json`."
    )


def _bars(doc: Document) -> Iterator[Bar]:
    for name, arm in doc["arms"].items():
        rate = doc["per_arm"][name]["decode_tokens_per_s"]
        if rate:
            low = rate["value"] if rate["low"] is None else rate["low"]
            high = rate["value"] if rate["high"] is None else rate["high"]
            yield Bar(
                label=arm["label"],
                value=rate["value"],
                low=low,
                high=high,
                own=arm["peer"] == "outpace",
                fast=arm["speculate"],
            )
