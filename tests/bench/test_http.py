"""An endpoint is measured by what it says: times where parts arrive, tokens by its own count."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from bench.test_run import WORDS
from contract.liars import answering, dropping
from outpace.bench.arrivals import Closed
from outpace.bench.client import guessed_between
from outpace.bench.http import OverHttp
from outpace.bench.http.stream import Heard, events, fields_of, speculation_of
from outpace.bench.record import SCHEMA_FILE, read_records, run_line
from outpace.bench.run import Arm, Plan, run
from outpace.bench.subject import AtEndpoint, parse_settings
from outpace.bench.summary import summarise
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError, RequestError
from outpace.journal import Journal, read_lines
from server.live import Live, running
from small import small_model

HELLO = [{"role": "user", "content": "hello hello hello"}]


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with running() as server:
        yield server
        server.idle()


@pytest.fixture
def http(live: Live) -> Iterator[OverHttp]:
    client = OverHttp(f"{live.url}/v1")
    yield client
    client.close()


def test_an_answer_is_the_servers_own(live: Live, http: OverHttp) -> None:
    sampling = Sampling(max_tokens=50, seed=3, temperature=0.7, ignore_eos=True)
    found = http.ask(HELLO, sampling, want_text=True)
    whole = live.chat(
        "hello hello hello", max_tokens=50, seed=3, temperature=0.7, ignore_eos=True,
        return_token_ids=True,
    )  # fmt: skip
    assert found.ok
    assert found.text == whole["choices"][0]["message"]["content"]
    assert found.tokens == tuple(whole["choices"][0]["token_ids"])
    assert (found.completion_tokens, found.prompt_tokens) == (50, whole["usage"]["prompt_tokens"])
    assert sum(found.chunk_tokens) == 50
    assert found.sent_s <= found.chunks_s[0] <= found.chunks_s[-1] <= found.ended_s
    assert list(found.chunks_s) == sorted(found.chunks_s)
    said, told = found.speculation, whole["metrics"]
    assert said is not None
    assert said.rounds == told["outpace"]["rounds"]
    assert said.drafted == told["speculative_decoding"]["num_draft_tokens"] > 0
    assert sum(n for _, _, n in said.lengths) == said.rounds
    assert sum(kept * n for _, kept, n in said.lengths) == said.kept
    again = http.ask(HELLO, sampling)
    assert again.digest == found.digest
    assert found.counted_by == "server"


def test_refusals_and_what_cannot_be_asked_are_answers(http: OverHttp) -> None:
    found = http.ask([{"role": "user", "content": "x" * 500}], Sampling(max_tokens=3))
    assert not found.ok
    assert "status 400" in str(found.error)
    assert "shorten the prompt" in str(found.error)
    assert "forced" in str(http.ask(HELLO, Sampling(forced=(1,))).error)


def test_every_option_is_asked_or_refused(live: Live) -> None:
    sampling = Sampling(
        temperature=0.5, top_k=9, top_p=0.9, min_p=0.01, repetition_penalty=1.1,
        presence_penalty=0.1, frequency_penalty=0.2, logit_bias={5: -1.0}, min_tokens=2,
        max_tokens=20, stop=("zz",), stop_token_ids=frozenset({7}), ignore_eos=True, seed=1,
        logprobs=2,
    )  # fmt: skip
    asked = fields_of(sampling)
    names = {"logprobs", "top_logprobs", *(n for n in Sampling.__slots__ if n in asked)}
    assert set(asked) == names
    assert len(asked) == 16
    live.chat(**asked)
    assert fields_of(Sampling()) == {"temperature": 0.0}
    with pytest.raises(RequestError, match="banned, forced and rule"):
        fields_of(Sampling(banned=((1,),)))


class Moody:
    """Refuses the first answers with a status, or breaks each stream after its first event."""

    def __init__(self, app: ASGIApp, *, refusals: int = 0, status: int = 429, breaks: bool = False):
        self._app, self._left, self._status, self.breaks = app, refusals, status, breaks
        self.asked = 0
        self.headers = [(b"retry-after", b"0")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("completions"):
            await self._app(scope, receive, send)
            return
        self.asked += 1
        if self._left:
            self._left -= 1
            start = {"type": "http.response.start", "status": self._status}
            await send({**start, "headers": self.headers})
            await send({"type": "http.response.body", "body": b"{}"})
            return

        async def short(message: Any) -> None:
            await send({**message, "more_body": False} if "body" in message else message)

        await self._app(scope, receive, short if self.breaks else send)


def test_what_was_not_taken_is_asked_again_and_what_broke_is_not() -> None:
    moods: list[Moody] = []

    def moody(app: ASGIApp) -> ASGIApp:
        moods.append(Moody(app, refusals=3))
        return moods[0]

    with running(behind=moody) as live:
        (mood,) = moods
        http = OverHttp(live.url)
        assert mood.asked == 4
        assert http.ask(HELLO, Sampling(max_tokens=4)).ok
        mood._left, mood._status, mood.asked = 1, 503, 0
        assert http.ask(HELLO, Sampling(max_tokens=4)).ok
        assert mood.asked == 2
        mood._left, mood._status, mood.asked = 1, 500, 0
        assert "status 500" in str(http.ask(HELLO, Sampling(max_tokens=4)).error)
        assert mood.asked == 1
        mood.breaks, mood.asked = True, 0
        assert "finish_reason" in str(http.ask(HELLO, Sampling(max_tokens=40)).error)
        assert mood.asked == 1
        http.close()
        assert not http.ask(HELLO, Sampling(max_tokens=4)).ok


def test_an_endpoint_that_is_none_is_named(live: Live) -> None:
    with pytest.raises(ConfigError, match="does not answer"):
        OverHttp("http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="no model 'gpt'; it lists small"):
        OverHttp(live.url, model="gpt")


def test_events_survive_any_cut_and_breaks_inside_of_text() -> None:
    document = {"choices": [{"delta": {"content": "a\u2028b\x85é"}, "finish_reason": "stop"}]}
    data = b": hello\r\n\r\n" + b"".join(
        b"data: " + json.dumps(d, ensure_ascii=False).encode() + b"\n\n" for d in (document, {})
    )
    for n in range(1, len(data)):
        stream = iter([data[:n], data[n:] + b"data: [DONE]\n\ndata: never"])
        found = [event for _, event in events(httpx.Response(200, content=stream))]
        assert found == [document, {}]


def test_tokens_nobody_told_by_part_are_shared_out() -> None:
    heard = Heard()
    for at, text in enumerate(("ab", "c", "d")):
        heard.add({"choices": [{"delta": {"content": text}}]}, float(at))
    heard.add({"choices": [{"delta": {}, "finish_reason": "length"}]}, 3.0)
    assert heard.answer(0.0, 4.0).counted_by == "client"
    heard.add({"choices": [], "usage": {"completion_tokens": 8, "prompt_tokens": 2}}, 3.5)
    found = heard.answer(0.0, 4.0)
    assert (found.chunk_tokens, found.chunks_s) == ((3, 3, 2), (0.0, 1.0, 2.0))
    assert (found.counted_by, found.speculation, found.text) == ("server", None, "abcd")
    heard.usage = {"completion_tokens": 2}
    assert heard.answer(0.0, 4.0).chunks_s == (0.0, 2.0)
    heard.usage = {"completion_tokens": 1}
    assert heard.answer(0.0, 4.0).chunks_s == (0.0,)
    with pytest.raises(RequestError, match="broken"):
        heard.add({"error": {"message": "broken"}}, 4.0)


def test_what_vllm_says_of_guesses_is_read_no_further_than_it_goes() -> None:
    said = {
        "num_spec_steps": 4, "num_draft_tokens": 12, "num_accepted_draft_tokens": 5,
        "acceptance_histogram": [1, 1, 2, 0], "num_spec_tokens": 3,
    }  # fmt: skip
    found = speculation_of({"metrics": {"speculative_decoding": said}}, 11)
    assert found is not None
    assert (found.rounds, found.drafted, found.kept) == (6, 12, 5)
    assert found.lengths == ((0, 0, 2), (3, 0, 1), (3, 1, 1), (3, 2, 2))
    said["num_draft_tokens"] = 9  # some drafts were shorter: which, nobody says
    found = speculation_of({"metrics": {"speculative_decoding": said}}, 11)
    assert found is not None
    assert found.lengths == ()
    assert speculation_of({"metrics": {"speculative_decoding": None}}, 11) is None
    assert speculation_of({}, 11) is None


def test_counters_that_begin_with_the_first_guess_began_at_zero() -> None:
    after = {"tokens": 110.0, "drafted": 30.0, "kept": 10.0}
    found = guessed_between({"tokens": 10.0}, after)
    assert found is not None
    assert (found.rounds, found.drafted, found.kept) == (90, 30, 10)
    assert guessed_between(None, after) is None
    assert guessed_between({"tokens": 1.0}, {"tokens": 2.0}) is None


def measured(url: str, arms: str, path: Path) -> list[str]:
    """Run a plan and keep its records; returns the notes on them."""
    plan = Plan(
        arms=parse_settings(arms), loads=(Closed(streams=2),), workload=WORDS,
        sampling=Sampling(max_tokens=24), requests=5, repeats=2, warm_up=1,
    )  # fmt: skip
    with closing(OverHttp(url)) as http, Journal(path) as journal:
        subject = AtEndpoint(http, plan.arms)
        journal.append(run_line({"arms": [a.name for a in plan.arms], **subject.facts()}, "id"))
        run(plan, subject.client, journal, lambda _: None)
        return list(subject.notes())


def test_arms_of_an_endpoint_give_the_same_text_in_the_same_records(
    live: Live, tmp_path: Path
) -> None:
    path = tmp_path / "records.jsonl"
    notes = measured(live.url, "off,auto", path)
    schema = json.loads(SCHEMA_FILE.read_text())
    for _, line in read_lines(path):
        jsonschema.validate(line, schema)
    records = read_records(path)
    assert len(records.requests) == 20
    assert records.facts["client"] == "http"
    assert records.facts["tokens_per_part"] == "told"
    summary = summarise(records)
    (compared,) = summary.comparisons
    assert (compared.same_text, compared.texts) == (10, 10)
    off, auto = (cell.acceptance for cell in summary.cells)
    assert off is not None
    assert auto is not None
    assert (off.drafted, off.pooled.value) == (0, 1.0)
    assert auto.drafted > 0
    assert auto.positions
    assert not any("/metrics" in note for note in notes)


def test_where_answers_are_silent_the_servers_counters_tell(tmp_path: Path) -> None:
    def silent(document: dict[str, Any]) -> None:
        document.pop("metrics", None)

    path = tmp_path / "records.jsonl"
    with running(behind=answering(silent)) as live:
        notes = " ".join(measured(live.url, "as-is", path))
    records = read_records(path)
    assert all(r.speculation is None for r in records.requests)
    said = [block.speculation for block in records.blocks]
    assert all(s is not None and s.drafted > 0 for s in said)
    tokens = sum(r.completion_tokens for r in records.requests)
    assert sum(s.rounds + s.kept for s in said if s) == tokens
    (cell,) = summarise(records).cells
    assert cell.acceptance is not None
    assert cell.acceptance.per_request is None
    assert cell.acceptance.pooled.value > 1
    assert "counted by /metrics" in notes


def test_a_server_that_tells_nothing_is_said_to(tmp_path: Path) -> None:
    def silent(document: dict[str, Any]) -> None:
        document.pop("metrics", None)

    path = tmp_path / "records.jsonl"
    with running(small_model(drafter="none"), behind=answering(silent)) as live:
        notes = " ".join(measured(live.url, "as-is", path))
    assert "whether it speculates is not known" in notes
    (cell,) = summarise(read_records(path)).cells
    assert cell.acceptance is None


def test_settings_need_an_endpoint_that_reads_them() -> None:
    with running(behind=dropping("speculation")) as live:
        http = OverHttp(live.url)
        AtEndpoint(http, parse_settings("as-is"))
        with pytest.raises(ConfigError, match="as-is is its only arm"):
            AtEndpoint(http, parse_settings("off,auto"))
        http.close()
    for text in ("", "off,off", "sometimes"):
        with pytest.raises(ConfigError, match="arm"):
            parse_settings(text)
    assert isinstance(parse_settings("fixed:3")[0], Arm)
