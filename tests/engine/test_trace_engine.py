"""The writer as a listener of the real engine: batches, preemption, aborts."""

from pathlib import Path

from engine.trace_world import PROMPT, TREE, Guesser, about, parsed
from outpace.control.limits import Limits
from outpace.core.sampling import Sampling
from outpace.engine.engine import Engine
from outpace.engine.replay import replay
from outpace.engine.trace import TraceWriter
from outpace.runtimes.toy import TableRuntime, random_table


def test_an_engine_that_preempts_and_aborts_leaves_a_trace_that_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    target = TableRuntime(random_table(8, seed=1), vocab_size=8, max_tokens=40)
    engine = Engine(target, Guesser(TREE), limits=Limits(max_nodes=6, max_depth=3))
    writer = TraceWriter(path, about(target))
    engine.listeners.append(writer.listen)
    samplings = [Sampling(max_tokens=20, temperature=t, seed=s) for t in (0, 1) for s in (None, 4)]
    sequences = [
        engine.add(PROMPT, s, seed=k, traced=k != 1) for k, s in enumerate([*samplings, Sampling()])
    ]
    for _ in range(3):
        engine.step()
    engine.abort(sequences[0])
    while not engine.idle:
        engine.step()
    writer.close()
    report = replay(path)
    assert report.holds, report.text()
    assert report.n_requests >= 3
    rounds = [line for line in parsed(path) if line["kind"] == "round"]
    assert sum(line["score"]["input"]["reread"] for line in rounds) > 0
    assert max(line["batch"]["sequences"] for line in rounds) > 1
