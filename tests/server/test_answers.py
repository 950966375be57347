"""What answers say: seeds, ends, echoes, log-probabilities, rounds, and how they were made."""

from typing import Any

import pytest

from outpace.server.settings import Settings
from server.live import Live, refused, running


def test_n_answers_differ_and_each_has_a_seed_of_its_own(server: Live) -> None:
    three = server.complete("hello", n=3, seed=5, max_tokens=20)["choices"]
    texts = [choice["text"] for choice in three]
    assert len(set(texts)) == 3
    assert [c["index"] for c in three] == [0, 1, 2]
    assert server.complete("hello", seed=5, max_tokens=20)["choices"][0]["text"] == texts[0]
    done = server.complete("hello", n=2, seed=5, max_tokens=20, ignore_eos=True)
    assert done["metrics"] is None
    assert done["usage"] == {"prompt_tokens": 5, "completion_tokens": 40, "total_tokens": 45}


def test_a_negative_seed_is_a_seed(server: Live) -> None:
    a, b = (server.complete("hello", seed=s, max_tokens=9)["choices"] for s in (-1, 2**64 - 1))
    assert a == b


def test_prompts_are_texts_or_ids_one_or_many(server: Live) -> None:
    ids = server.post("/tokenize", prompt="hello").json()["tokens"]
    asked: dict[str, Any] = {"seed": 3, "max_tokens": 10}
    one = server.complete("hello", **asked)["choices"][0]["text"]
    assert server.complete(ids, **asked)["choices"][0]["text"] == one
    for prompts in (["hello", "other"], [ids, [1, 2]]):
        found = server.complete(prompts, **asked)["choices"]
        assert found[0]["text"] == one
        assert len(found) == 2


def test_echo_comes_first_and_may_be_all(server: Live) -> None:
    plain = server.complete("hello", temperature=0, max_tokens=7)["choices"][0]["text"]
    echoed = server.complete("hello", temperature=0, max_tokens=7, echo=True)["choices"][0]
    assert echoed["text"] == "hello" + plain
    scored = server.complete("hello", max_tokens=0, echo=True, logprobs=1)
    logprobs = scored["choices"][0]["logprobs"]
    assert scored["choices"][0]["text"] == "hello"
    assert scored["usage"]["completion_tokens"] == 0
    assert logprobs["tokens"] == list("hello")
    assert logprobs["text_offset"] == [0, 1, 2, 3, 4]
    assert logprobs["token_logprobs"][0] is None
    assert all(x < 0 for x in logprobs["token_logprobs"][1:])
    events = server.events(
        "/v1/completions", prompt="hello", temperature=0, max_tokens=7, echo=True, logprobs=0
    )
    assert "".join(e["choices"][0]["text"] for e in events) == "hello" + plain
    assert sum(len(e["choices"][0]["logprobs"]["tokens"]) for e in events) == 12


def test_prompt_logprobs_have_a_place_for_every_token(server: Live) -> None:
    done = server.complete([5, 6, 7], max_tokens=1, prompt_logprobs=2)["choices"][0]
    first, *others = done["prompt_logprobs"]
    assert first is None
    for token, report in zip((6, 7), others, strict=True):
        assert set(report[str(token)]) == {"logprob", "rank", "decoded_token"}
        ranks = sorted(entry["rank"] for entry in report.values())
        assert ranks[:2] == [1, 2]
    chat = server.chat(prompt_logprobs=0)
    assert len(chat["prompt_logprobs"]) == chat["usage"]["prompt_tokens"]
    error = refused(server.post("/v1/completions", prompt="a", stream=True, prompt_logprobs=1))
    assert error["param"] == "prompt_logprobs"


def test_stop_reasons_name_what_stopped(server: Live) -> None:
    asked: dict[str, Any] = {"temperature": 0, "max_tokens": 30, "return_token_ids": True}
    ids = server.complete("hello", **asked)["choices"][0]["token_ids"]
    done = server.complete("hello", stop_token_ids=[ids[5]], **asked)["choices"][0]
    assert done["stop_reason"] == ids[5]
    assert done["token_ids"] == ids[: ids.index(ids[5]) + 1]
    text = server.complete("hello", **asked)["choices"][0]["text"]
    at = next(i for i in range(3, 20) if text[i : i + 2].isascii())
    done = server.complete("hello", stop=["never", text[at : at + 2]], **asked)["choices"][0]
    assert done["finish_reason"] == "stop"
    assert done["stop_reason"] == text[at : at + 2]
    assert done["text"] == text[: text.index(text[at : at + 2])]


def test_rounds_add_up_to_the_answer(server: Live) -> None:
    asked: dict[str, Any] = {"max_tokens": 60, "temperature": 0, "return_rounds": True}
    asked["prompt"] = "hello hello hello"
    done = server.complete(**asked)
    choice = done["choices"][0]
    rounds = choice["rounds"]
    assert sum(len(r["texts"]) for r in rounds) == done["usage"]["completion_tokens"]
    assert len(rounds) == done["metrics"]["outpace"]["rounds"]
    assert "".join(text for r in rounds for text in r["texts"]) == choice["text"]
    events = server.events("/v1/completions", **asked)
    assert [n for e in events for n in e["choices"][0].get("rounds", [])] == rounds
    off = server.complete(**asked, speculation="off")["choices"][0]
    assert {(len(r["texts"]), r["kept"], len(r["guesses"])) for r in off["rounds"]} == {(1, 0, 0)}
    assert off["text"] == choice["text"]


def test_rounds_tell_every_guess_and_which_were_kept(server: Live) -> None:
    done = server.complete("ab ab ab ab ab", max_tokens=80, temperature=0, return_rounds=True)
    rounds, counts = done["choices"][0]["rounds"], done["metrics"]["speculative_decoding"]
    guesses = [guess for r in rounds for guess in r["guesses"]]
    assert len(guesses) == counts["num_draft_tokens"] > 0
    assert sum(g["kept"] for g in guesses) == counts["num_accepted_draft_tokens"] > 0
    assert not all(g["kept"] for g in guesses)
    for r in rounds:
        kept = [g["text"] for g in r["guesses"] if g["kept"]]
        assert len(kept) == r["kept"] >= len(r["texts"]) - 1
        assert all(-1 <= g["parent"] < i for i, g in enumerate(r["guesses"]))
        if all(text.isascii() and text for text in (*kept, *r["texts"])):
            assert r["texts"][: r["kept"]] == kept
        # What the target chose instead is not what was guessed there.
        if r["guesses"] and len(r["texts"]) == r["kept"] + 1 and r["texts"][-1].isascii():
            last = max((i for i, g in enumerate(r["guesses"]) if g["kept"]), default=-1)
            failed = [g["text"] for g in r["guesses"] if g["parent"] == last and not g["kept"]]
            assert r["texts"][-1] not in failed


@pytest.mark.parametrize(
    ("keys", "told"), [((), True), (("a",), True), (("a", "b"), False)], ids=["none", "one", "two"]
)
def test_with_several_callers_rejected_guesses_are_not_spelled(
    keys: tuple[str, ...], told: bool
) -> None:
    """A drafter remembers what others were answered."""
    with running(settings=Settings(port=0, api_keys=keys)) as live:
        live.http.headers["Authorization"] = "Bearer a"
        done = live.complete("ab ab ab ab ab", max_tokens=80, temperature=0, return_rounds=True)
    guesses = [guess for r in done["choices"][0]["rounds"] for guess in r["guesses"]]
    assert all(g["text"] is not None for g in guesses if g["kept"])
    rejected = {g["text"] is not None for g in guesses if not g["kept"]}
    assert rejected == {told}


def test_a_text_that_ends_among_kept_guesses_has_no_choice_of_its_own(server: Live) -> None:
    asked: dict[str, Any] = {"max_tokens": 200, "temperature": 0, "return_rounds": True}
    rounds = server.complete("ab ab ab ab ab", **asked)["choices"][0]["rounds"]
    at = next(i for i, r in enumerate(rounds) if r["kept"] >= 2 and r["texts"][0])
    # Everything up to a kept guess, as a stop string: the text ends at that guess.
    stop = "".join(t for r in rounds[:at] for t in r["texts"]) + rounds[at]["texts"][0]
    cut = server.complete("ab ab ab ab ab", **asked, stop=[stop])["choices"][0]
    assert (cut["finish_reason"], cut["text"]) == ("stop", "")
    last = cut["rounds"][-1]
    assert (last["texts"], last["kept"]) == ([""], 1)
    assert [g["kept"] for g in last["guesses"]].count(True) == 1
    assert len(cut["rounds"]) == at + 1


@pytest.mark.parametrize("level", ["none", "summary", "detailed"])
def test_metrics_have_levels(server: Live, level: str) -> None:
    asked: dict[str, Any] = {"max_tokens": 50, "temperature": 0, "speculation_metrics": level}
    done = server.complete("ab ab ab ab ab", **asked)
    if level == "none":
        assert "metrics" not in done
        return
    found = done["metrics"]["speculative_decoding"]
    assert sum(found["acceptance_histogram"]) == found["num_spec_steps"] > 0
    by_length = found.get("acceptance_histogram_by_draft_length")
    assert (by_length is not None) == (level == "detailed")
    if by_length:
        assert sum(map(sum, by_length.values())) == found["num_spec_steps"]
    *_, last = server.events(
        "/v1/completions", prompt="ab ab ab ab ab", stream_options={"include_usage": True}, **asked
    )
    assert last["metrics"] == done["metrics"] | {"outpace": last["metrics"]["outpace"]}
    assert last["choices"] == []


def test_without_a_draft_there_is_no_rate(server: Live) -> None:
    found = server.complete("hello", max_tokens=5, speculation="off")["metrics"]
    assert found["speculative_decoding"] == {
        "mean_acceptance_length": None, "draft_acceptance_rate": None, "acceptance_histogram": [],
        "num_spec_steps": 0, "num_accepted_draft_tokens": 0, "num_draft_tokens": 0,
        "num_spec_tokens": None,
    }  # fmt: skip


def test_many_answers_stream_interleaved_and_whole(server: Live) -> None:
    asked: dict[str, Any] = {
        "prompt": ["hello", "other words"],
        "n": 2,
        "seed": 2,
        "max_tokens": 25,
    }
    whole = [choice["text"] for choice in server.complete(**asked)["choices"]]
    texts = [""] * 4
    for event in server.events("/v1/completions", **asked):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == whole


def test_tokens_go_round_trip(server: Live) -> None:
    text = "héllo \U0001f600 東京"
    ids = server.post("/tokenize", prompt=text).json()
    assert ids["count"] == len(ids["tokens"])
    assert ids["max_model_len"] == 400
    assert server.post("/detokenize", tokens=ids["tokens"]).json() == {"prompt": text}
    chat = server.post("/tokenize", messages=[{"role": "user", "content": "hi"}]).json()
    assert server.post("/detokenize", tokens=chat["tokens"]).json()["prompt"].endswith("assistant:")
    assert refused(server.post("/detokenize", tokens=[257]))["param"] == "tokens"
    assert refused(server.post("/tokenize"))["param"] == "prompt"


def test_content_may_come_in_parts_of_text(server: Live) -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    body: dict[str, Any] = {"temperature": 0, "max_tokens": 9}
    one = server.post(
        "/v1/chat/completions", messages=[{"role": "user", "content": parts}], **body
    ).json()
    assert one["choices"][0]["message"] == server.chat("hello", **body)["choices"][0]["message"]
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    error = refused(
        server.post("/v1/chat/completions", messages=[{"role": "user", "content": image}])
    )
    assert "image_url" in error["message"]
