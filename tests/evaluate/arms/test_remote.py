"""Endpoints as arms: real servers over HTTP, what they tell, and what is wrong with some."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from evaluate.questions import plain
from evaluate.steps.lab import document, opened, study_of, walked, write
from outpace.bench.http import scraped
from outpace.core.sampling import Sampling
from outpace.errors import ConfigError
from outpace.evaluate.arms import audit
from outpace.evaluate.arms.adapters import ADAPTERS, counted, recognised, timed_guesses
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.arms.served.managed import environment_key, free_port
from outpace.evaluate.exact import wire
from outpace.evaluate.exact.kept import Kept
from outpace.evaluate.judge.verified import TextCheck, Verified
from outpace.evaluate.measure.shares import Share, window_of
from outpace.evaluate.plan.arms import EndpointArm
from outpace.server.settings import Settings
from server.live import Live, running
from small import small_model

Arm = Callable[..., RemoteArm]
TEXT = ({"role": "user", "content": "hello hello hello"},)
GREEDY = Sampling(temperature=0, max_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Live, Live]]:
    with running(small_model(drafter="none")) as base, running() as other:
        yield base, other


@pytest.fixture
def arm() -> Iterator[Arm]:
    """Opens arms, and closes them again."""
    with ExitStack() as stack:

        def made(live: Live, name: str = "candidate") -> RemoteArm:
            found = RemoteArm(name, EndpointArm(endpoint=f"{live.url}/v1", model="small"))
            stack.callback(found.close)
            return found

        yield made


def test_an_answer_and_what_the_server_counted(servers: tuple[Live, Live], arm: Arm) -> None:
    found = arm(servers[1])
    assert found.adapter.name == "outpace"
    before = found.counters()
    answer = found.ask(TEXT, GREEDY)
    assert answer.ok
    assert answer.counted_by == "server"
    assert answer.tokens is not None
    assert len(answer.tokens) == answer.completion_tokens == 24
    after = found.counters()
    assert before is not None
    assert after is not None
    assert after["generation_tokens"] - before["generation_tokens"] == 24
    assert found.tokenize(TEXT) == servers[1].model.encode([dict(m) for m in TEXT])


def test_the_audit_sees_who_guesses_and_that_the_model_is_one(
    servers: tuple[Live, Live], arm: Arm
) -> None:
    arms = {"baseline": arm(servers[0], "baseline"), "candidate": arm(servers[1])}
    active = audit.activity(arms, {"baseline": None, "candidate": None})
    assert active["baseline"].moved is False
    assert active["candidate"].moved is True
    assert audit.same_model(arms, "baseline").same is True
    with running(small_model(seed=4)) as stranger:
        other = {"baseline": arms["baseline"], "candidate": arm(stranger)}
        assert audit.same_model(other, "baseline").same is False


def compared(base: RemoteArm, other: RemoteArm, n: int, folder: Path) -> list[TextCheck]:
    with closing(Kept(folder, other.root)) as kept:
        return wire.compare(base, [other], plain(n), n_tokens=30, kept=kept, tick=lambda *_: None)


def test_texts_over_the_wire_are_identical_or_judged(
    servers: tuple[Live, Live], arm: Arm, tmp_path: Path
) -> None:
    base, other = arm(servers[0], "baseline"), arm(servers[1])
    found = compared(base, other, 3, tmp_path)
    assert [(f.verdict, f.control, f.n_tokens) for f in found] == [("identical",) * 2 + (30,)] * 3
    other.close()  # what was found is not asked again
    assert compared(base, other, 3, tmp_path) == found
    with running(small_model(seed=4)) as stranger:
        wrong = compared(base, arm(stranger), 1, tmp_path)
    assert wrong[0].verdict == "mismatch"
    assert wrong[0].at == 0
    assert wrong[0].margin is not None
    assert wrong[0].noise is not None
    assert wrong[0].margin > wrong[0].noise


def test_a_study_of_two_endpoints(servers: tuple[Live, Live], tmp_path: Path) -> None:
    arms = {
        "baseline": {"endpoint": f"{servers[0].url}/v1", "model": "small"},
        "candidate": {"endpoint": f"{servers[1].url}/v1", "model": "small"},
    }
    plan = document(arms=arms)
    plan["criteria"].append({"id": "contract", "type": "contract"})
    path = write(tmp_path, {k: v for k, v in plan.items() if k != "target"})
    found = walked(path).verdict
    statuses = {o.id: o.status for o in found.outcomes}
    assert statuses["text"] == "PASS", found
    assert statuses["contract"] != "FAIL", found
    study = study_of(path)
    verified = Verified.of(next(s for s in study.statements if s.kind == "verify"))
    assert sum(c.verdict == "pass" for c in verified.contract["candidate"]) > 30
    assert all(w.foreign_tokens == 0 and w.valid for w in study.measurements().windows)


def test_strangers_on_the_server_make_a_window_invalid() -> None:
    share = Share(
        plan="p", phase="test", variant="", load="closed:1", repeat=0, group=0, arm="a",
        attempt=0, wall_s=1.0, requests=1, own_tokens=10, counters={"generation_tokens": 17.0},
    )  # fmt: skip
    window = window_of([share], one_stream=True)
    assert (window.valid, window.foreign_tokens) == (False, 7)
    assert "7 tokens were generated for others" in window.reasons[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "smal"}, "has no model 'smal'; it lists small"),
        ({"api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY, which is not set"),
    ],
)
def test_what_is_wrong_with_an_endpoint_is_said_first(
    servers: tuple[Live, Live], tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    one = {"endpoint": f"{servers[0].url}/v1", "model": "small"}
    path = write(tmp_path, document(arms={"baseline": one, "candidate": {**one, **changes}}))
    with pytest.raises(ConfigError, match=message), opened(path):
        pass
    assert not study_of(path).statements


def test_nobody_there(tmp_path: Path) -> None:
    where = {"endpoint": f"http://127.0.0.1:{free_port()}/v1", "model": "small"}
    path = write(tmp_path, document(arms={"baseline": where, "candidate": dict(where)}))
    with pytest.raises(ConfigError, match=r"arm baseline: .* does not answer"), opened(path):
        pass


def test_a_wrong_key() -> None:
    with running(settings=Settings(port=0, api_keys=("right",))) as live:
        asked = EndpointArm(endpoint=live.url, model="small", api_key_env="KEY")
        with pytest.raises(ConfigError, match=r"refuses the key .* in KEY"):
            RemoteArm("candidate", asked, key="wrong")
        RemoteArm("candidate", asked, key="right").close()


def test_counters_of_other_engines() -> None:
    text = """\
# HELP vllm:generation_tokens_total x
vllm:generation_tokens_total{engine="0",model_name="m"} 40.0
vllm:generation_tokens_total{engine="1",model_name="m"} 2.0
vllm:spec_decode_num_drafts_total{engine="0"} 7.0
"""
    metrics = scraped(text)
    adapter = recognised(metrics)
    assert adapter.name == "vllm"
    found = counted(adapter, metrics)
    assert (found["generation_tokens"], found["drafts"]) == (42.0, 7.0)
    assert recognised(scraped("llamacpp:tokens_predicted_total 5")).name == "llama.cpp"
    assert recognised(scraped("sglang:generation_tokens_total 5")).name == "sglang"
    assert recognised({}) is ADAPTERS["none"]
    said = timed_guesses({"timings": {"draft_n": 10, "draft_n_accepted": 6}}, 30)
    assert said is not None
    assert (said.rounds, said.drafted, said.kept) == (24, 10, 6)
    assert timed_guesses({"timings": {"predicted_n": 30}}, 30) is None


def test_keys_come_from_the_environment_only() -> None:
    assert environment_key(None, {}) is None
    assert environment_key("KEY", {"KEY": " secret "}) == "secret"
    with pytest.raises(ConfigError, match="export it first"):
        environment_key("KEY", {"KEY": " "})
