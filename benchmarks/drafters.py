"""What drafters are worth, offline: kept guesses per pass and microseconds per call.

The texts a model wrote are replayed: at every round the drafter proposes, the guesses that agree
with the text are kept, and it is told. At temperature 0 that is exactly what an engine would do,
without the model's time, so that drafters can be tuned on the same texts in seconds. Costs are
CPU time of the calling thread.

    python benchmarks/drafters.py texts PROMPTS.jsonl TEXTS.jsonl --model smollm2-135m
    python benchmarks/drafters.py replay TEXTS.jsonl --drafters lookup,suffix,auto --nodes 4,8,16

PROMPTS has Spec-Bench's shape: `category` and `turns`, of which the first is used. TEXTS has one
text a line: `category`, `prompt` and `output` as token ids.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from outpace.core.coins import SeededCoins
from outpace.core.draft import ROOT, Ask, Draft, Drafter, Seen
from outpace.core.sampling import Sampling
from outpace.drafters import registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One answer to replay."""

    category: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(slots=True)
class Tally:
    """Sums over rounds."""

    rounds: int = 0
    tokens: int = 0
    guesses: int = 0
    propose_s: list[float] = field(default_factory=list)
    observe_s: list[float] = field(default_factory=list)


def read_texts(path: Path) -> list[Text]:
    """The texts of a file, in its order."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Text(category=r["category"], prompt=tuple(r["prompt"]), output=tuple(r["output"]))
        for r in rows
    ]


def agreed(draft: Draft, coming: tuple[int, ...]) -> int:
    """How many guesses agree with the tokens that are coming."""
    node, n = ROOT, 0
    for token in coming:
        kept = [c for c in draft.children[node + 1] if draft.tokens[c] == token]
        if not kept:
            break
        node, n = kept[0], n + 1
    return n


def replay(drafter: Drafter, key: int, text: Text, ask_like: Ask, tally: Tally) -> None:
    """One text through the drafter, round by round. The first token comes with the prompt."""
    committed = list(text.prompt)
    began = time.thread_time()
    drafter.observe([Seen(key=key, start=0, tokens=text.prompt)])
    tally.observe_s.append(time.thread_time() - began)
    done = 0
    while done < len(text.output):
        ask = Ask(
            key=key, tokens=committed, n_prompt=len(text.prompt), max_nodes=ask_like.max_nodes,
            max_depth=min(ask_like.max_depth, len(text.output) - done - 1 or 1),
            trees=ask_like.trees, style="chosen", sampling=ask_like.sampling,
            coins=SeededCoins(0, len(committed)), worth=ask_like.worth,
        )  # fmt: skip
        t0 = time.thread_time()
        (draft,) = drafter.propose([ask])
        t1 = time.thread_time()
        n = min(agreed(draft, text.output[done:]) + 1, len(text.output) - done)
        emitted = text.output[done : done + n]
        start = len(committed)
        committed.extend(emitted)
        t2 = time.thread_time()
        drafter.observe([Seen(key=key, start=start, tokens=emitted)])
        tally.observe_s.append(time.thread_time() - t2)
        tally.propose_s.append(t1 - t0)
        done += n
        tally.rounds += 1
        tally.tokens += n
        tally.guesses += len(draft)
    drafter.forget(key)


def table(tallies: dict[str, Tally]) -> Iterator[str]:
    """A line per category: tokens per pass, guesses per pass, share of guesses kept."""
    for name, t in tallies.items():
        kept = t.tokens - t.rounds
        yield (
            f"  {name:16s} tokens/pass {t.tokens / t.rounds:5.2f}  guesses/pass "
            f"{t.guesses / t.rounds:5.2f}  kept {kept / max(1, t.guesses):5.1%}  "
            f"passes {t.rounds:6d}"
        )


def run_replay(options: argparse.Namespace) -> None:
    """Replay every text through every drafter at every budget."""
    texts = read_texts(options.texts)
    print(f"{len(texts)} texts, {sum(len(t.output) for t in texts)} tokens", file=sys.stderr)
    for spec in options.drafters.split(","):
        for nodes in map(int, options.nodes.split(",")):
            drafter = registry.make(spec)
            like = Ask(
                key=0, tokens=(), n_prompt=0, max_nodes=nodes, max_depth=nodes,
                trees=not options.chains, style="chosen", sampling=Sampling(),
                coins=SeededCoins(0, 0), worth=options.worth,
            )  # fmt: skip
            tallies: dict[str, Tally] = defaultdict(Tally)
            for key, text in enumerate(texts):
                replay(drafter, key, text, like, tallies[text.category])
            whole = Tally()
            for t in tallies.values():
                whole.rounds += t.rounds
                whole.tokens += t.tokens
                whole.guesses += t.guesses
                whole.propose_s += t.propose_s
                whole.observe_s += t.observe_s
            propose, observe = sorted(whole.propose_s), sorted(whole.observe_s)
            print(
                f"{spec} nodes={nodes}: propose median "
                f"{propose[len(propose) // 2] * 1e6:.0f} us, p95 "
                f"{propose[len(propose) * 95 // 100] * 1e6:.0f} us; observe "
                f"{observe[len(observe) // 2] * 1e6:.1f} us a round, "
                f"{sum(observe) / whole_tokens(texts) * 1e6:.2f} us a token"
            )
            if not options.brief:
                print(*table(tallies), sep="\n")
            print(*table({"all": whole}), sep="\n", flush=True)


def run_texts(options: argparse.Namespace) -> None:
    """Let the model answer, at temperature 0 and without guesses; append to the texts' file."""
    from outpace.build import load

    rows = [json.loads(line) for line in options.prompts.read_text("utf-8").splitlines()]
    by_category: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        by_category[row["category"]].append(row["turns"][0])
    with load(options.model, drafter="none") as model, options.texts.open("a") as out:
        for category, prompts in by_category.items():
            for prompt in prompts[: options.each]:
                done = model.generate(prompt, max_tokens=options.max_tokens)
                text = {
                    "category": category,
                    "prompt": model.encode(prompt),
                    "output": done.token_ids,
                }
                out.write(json.dumps(text) + "\n")
                out.flush()


def whole_tokens(texts: list[Text]) -> int:
    """Tokens of all prompts and outputs."""
    return sum(len(t.prompt) + len(t.output) for t in texts)


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(required=True)
    texts = commands.add_parser("texts", help="let a model write the texts")
    texts.add_argument("prompts", type=Path)
    texts.add_argument("texts", type=Path)
    texts.add_argument("--model", required=True)
    texts.add_argument("--each", type=int, default=8, help="prompts per category")
    texts.add_argument("--max-tokens", type=int, default=128)
    texts.set_defaults(run=run_texts)
    again = commands.add_parser("replay", help="replay texts through drafters")
    again.add_argument("texts", type=Path)
    again.add_argument("--drafters", default="lookup,suffix,auto")
    again.add_argument("--nodes", default="4,8,16")
    again.add_argument("--chains", action="store_true", help="no trees")
    again.add_argument("--worth", type=float, default=0.0, help="least chance that pays a row")
    again.add_argument("--brief", action="store_true", help="no categories")
    again.set_defaults(run=run_replay)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
