"""One session: from options to a document with every run, whatever ended it."""

import os
import shlex
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any  # a document of JSON

from benchmarks.peers import machine, prompts
from benchmarks.peers.arms import NOT_EQUAL, choose
from benchmarks.peers.records import Plan, Records
from benchmarks.peers.report.summary import summarize
from benchmarks.peers.run import Budget, Course, Field, TimeIsUp, enter, lengths, race, warm_up

from outpace.build import Opener, RuntimeChoice, open_tokenizer, template_of
from outpace.models.lineage import file_sha256
from outpace.models.pull import default_cache_dir
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asked for; see its help."""

    model: str
    prompts: Path
    limit: int | None
    categories: list[str]
    arms: list[str]
    n_tokens: int
    n_blocks: int
    n_prefill: int
    n_streams: int
    threads: int
    budget_s: float | None
    max_load: float
    max_foreign: float
    wait_quiet_s: float
    records: Path
    fresh: bool
    across_commits: bool


class Session:
    """Finds the model and the prompts, runs the arms, describes the result.

    Raises:
        OutpaceError: the model cannot be found or read.
        ValueError: no such arm, no such prompts, or a model the peers cannot read.
    """

    def __init__(self, options: Options, say: Say) -> None:
        self._options, self._say = options, say
        self._budget = Budget(options.budget_s)
        self._patience = machine.Patience(options.wait_quiet_s)
        self._cache = default_cache_dir(os.environ)
        opener = Opener(choice=RuntimeChoice(), cache_dir=self._cache)
        self._files = opener.files(options.model)
        if self._files.kind != "gguf":
            raise ValueError(
                f"{self._files.name} is {self._files.kind}; the peers start from a GGUF file"
            )
        self._gguf = self._files.weights[0]
        self._arms = choose(options.arms)
        self._asked = prompts.read(options.prompts, options.categories, options.limit)
        self._encoder = Encoder(open_tokenizer(self._files))
        self._entrants = Field(workers={}, arms=[], say=say)
        self._commit = machine.commit()
        self._load_before = self._load_then = machine.load()

    def plan(self) -> Plan:
        """What will be measured."""
        options = self._options
        return Plan(
            model=self._files.name,
            arms=tuple(arm.name for arm in self._arms),
            prompts=tuple(p.name for p in self._asked),
            digest=prompts.digest(self._asked),
            n_tokens=options.n_tokens,
            n_blocks=options.n_blocks,
            n_prefill=options.n_prefill,
            n_streams=options.n_streams,
            threads=options.threads,
            commit="" if options.across_commits else self._commit,
        )

    def _measure(self, records: Records) -> str:
        """Run until done, out of time or interrupted; which of these it was."""
        with ExitStack() as stack:
            try:
                self._run(records, stack)
            except TimeIsUp:
                return f"its time budget of {self._options.budget_s:.0f} s"
            except KeyboardInterrupt:
                return "interrupted"
        return "complete"

    def _run(self, records: Records, stack: ExitStack) -> None:
        options, encoder = self._options, self._encoder
        threads = options.threads
        items = prompts.items(self._asked, encoder.chat, options.n_tokens)
        items = lengths(items, self._files.name, threads, records, self._say)
        enter(self._entrants, self._arms, self._files.name, self._gguf, threads, stack)
        self._patience.for_load(options.max_load, self._say)
        self._load_then = machine.load()
        warm_up(self._entrants, [encoder.chat(text) for text in prompts.WARM_UP])
        n = options.n_prefill
        texts = prompts.prefills(self._asked, encoder.raw, 2 * n)
        course = Course(
            items=items,
            prefills=texts[:n],
            spare_prefills=texts[n:],
            n_blocks=options.n_blocks,
            n_streams=options.n_streams,
            max_foreign=options.max_foreign,
            commit=self._commit,
        )
        race(self._entrants, course, records, self._budget, self._patience)

    def document(self, command: Seq[str]) -> dict[str, Any]:
        """Measure, and describe everything that was measured, in this run and the ones before."""
        plan = self.plan()
        records = Records.open(self._options.records, plan, fresh=self._options.fresh)
        ended = self._measure(records)
        self._say(f"{ended}, {self._budget.used_s:.0f} s\n")
        entrants = self._entrants
        return {
            "schema": 1,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "command": "python -m benchmarks.peers " + shlex.join(_shown(command)),
            "ended": ended,
            "machine": machine.facts(),
            "load": {
                "before": round(self._load_before, 2),
                "measured_at": round(self._load_then, 2),
                "wanted": self._options.max_load,
                "waited_s": round(self._patience.waited_s),
            },
            "model": {
                "name": self._files.name,
                "file": self._gguf.name,
                "sha256": file_sha256(self._gguf, self._cache),
            },
            "plan": asdict(plan),
            "commits": sorted({unit.commit for unit in records.units}),
            "arms": {
                arm.name: {
                    "label": arm.label,
                    "peer": arm.peer,
                    "speculate": arm.speculate,
                    "idle_cpu": entrants.idle_cpu.get(arm.name),
                    **entrants.facts.get(arm.name, {}),
                }
                for arm in self._arms
            },
            "left_out": entrants.left_out,
            "not_equal": NOT_EQUAL,
            **summarize(records.units, self._arms),
        }


class Encoder:
    """Text to ids: through the chat template where there is one, or as it stands."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._template: ChatTemplate | None = template_of(tokenizer)

    def chat(self, text: str) -> list[int]:
        """A user's turn."""
        if self._template is None:
            return self.raw(text)
        turns = [{"role": "user", "content": text}]
        return self.raw(self._template.render(turns, add_generation_prompt=True))

    def raw(self, text: str) -> list[int]:
        """Plain text."""
        return self._tokenizer.encode(text, special=True)


def _shown(words: Seq[str]) -> list[str]:
    """The command without the folders of this machine."""
    return [Path(word).name if "/" in word else word for word in words]
