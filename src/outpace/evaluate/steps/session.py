"""One process at work on a study: prompts read, arms open, lineage known."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from outpace.errors import ConfigError
from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.arms.opening import Tools, open_arms
from outpace.evaluate.data import Item, Items, grade, load
from outpace.evaluate.ledger import Event, Kind, Statement
from outpace.evaluate.lineage import Lineage, Manifest, lineage
from outpace.evaluate.measure.blocks import Files, Tell, Work, run
from outpace.evaluate.measure.schedule import Question
from outpace.evaluate.measure.shares import SHARES, read_shares
from outpace.evaluate.measurement import RECORDS, Grade, Phase
from outpace.evaluate.phases import State, changes
from outpace.evaluate.plan.document import Plan
from outpace.evaluate.study import Study
from outpace.journal import Journal

# What is done, and how much of it there is -> told of each part as it ends.
Watch = Callable[[str, float], AbstractContextManager[Tell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What the command line provides. now: the wall clock, with its zone. program: what runs."""

    tools: Tools
    manifest: Manifest
    now: Callable[[], datetime]
    watch: Watch
    program: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """See above. arms: in the plan's order."""

    study: Study
    items: Items
    arms: Mapping[str, OpenArm]
    lineage: Lineage
    shell: Shell
    grades: "Grades" = field(repr=False)

    @property
    def plan(self) -> Plan:
        """What is evaluated."""
        return self.study.plan

    def state(self) -> State:
        """What may be done next, on what is there now."""
        return self.study.state(self.lineage.fields)

    def require(self, kind: Kind) -> State:
        """Refuse a phase whose turn it is not, or whose records would mix with others.

        Raises:
            ConfigError: what is missing; or what has changed since something was measured here.
        """
        state = self.state()
        changed = sorted({name for stale in state.stale for name in stale.changed})
        begun = _begun(self.study.statements, kind)
        if begun is not None:
            changed += changes(kind, begun.lineage, self.lineage.fields)
        if changed and self.study.measurements().requests:
            raise ConfigError(
                f"what was measured in {self.study.folder} no longer counts, since "
                f"{', '.join(dict.fromkeys(changed))} changed, and nothing else may mix with it; "
                "undo the change, or measure in another folder with --out"
            )
        state.require(kind)
        return state

    def begin(self, kind: Kind, body: Mapping[str, JsonValue]) -> None:
        """State that a phase begins to measure, unless it did before and is to go on."""
        if _begun(self.study.statements, kind) is None:
            self.note(kind, body, event="opened")

    def note(self, kind: Kind, body: Mapping[str, JsonValue], *, event: Event = "done") -> None:
        """State what was done."""
        self.study.note(
            kind, at=self.shell.now(), lineage=self.lineage.fields, body=body, event=event
        )

    def work(
        self, phase: Phase, questions: Seq[Question], *, arms: Seq[str] | None = None,
        variant: str = "", warm: Seq[Question] = (),
    ) -> Work:  # fmt: skip
        """Blocks of these questions, as the plan's design says."""
        design = self.plan.design
        return Work(
            plan=self.plan.identity, phase=phase, design=design, sampling=self.plan.sampling,
            questions=tuple(questions), arms=tuple(arms or self.arms), variant=variant,
            load=f"closed:{design.streams}", warm=tuple(warm), grade=self.grades,
        )  # fmt: skip

    def measure(self, work: Work, arms: Mapping[str, OpenArm], tell: Tell) -> None:
        """Run blocks, going on where records end."""
        with self.files() as files:
            run(work, arms, files, tell)

    @contextmanager
    def files(self) -> Iterator[Files]:
        """The study's records, open for this process alone."""
        folder = self.study.folder
        with Journal(folder / RECORDS) as records, Journal(folder / SHARES) as shares:
            yield Files(
                records=records, shares=shares, before=self.study.measurements(),
                shares_before=read_shares(folder / SHARES),
            )  # fmt: skip

    def warm(self) -> tuple[Item, ...]:
        """Prompts to warm up with: of dev, since nobody judges those."""
        return (self.items.dev or self.items.test)[: self.plan.design.warmup]

    def local(self) -> dict[str, LocalArm]:
        """Arms in this process."""
        return {name: arm for name, arm in self.arms.items() if isinstance(arm, LocalArm)}


def _begun(statements: Seq[Statement], kind: Kind) -> Statement | None:
    """The opening of a phase that was not finished."""
    found: Statement | None = None
    for statement in statements:
        if statement.kind == kind and "elsewhere" not in statement.body:
            found = statement if statement.event == "opened" else None
    return found


class Grades:
    """Grades answers; equal answers to a prompt once."""

    def __init__(self, items: Seq[Item]) -> None:
        self._items = {item.id: item for item in items}
        self._known: dict[tuple[str, str], Grade | None] = {}

    def __call__(self, item: str, text: str) -> Grade | None:
        if (item, text) not in self._known:
            found = self._items.get(item)
            self._known[item, text] = grade(found, text) if found is not None else None
        return self._known[item, text]

    def learn(self, items: Seq[Item]) -> None:
        """More prompts that may be asked."""
        self._items.update({item.id: item for item in items})


@contextmanager
def session(study: Study, shell: Shell) -> Iterator[Session]:
    """Read the prompts, open the arms, find out what everything rests on.

    Raises:
        ConfigError: the data is wrong, or an arm cannot be opened; nothing was measured.
    """
    plan = study.plan
    load(plan.data, plan.sampling, folder=study.base)  # its mistakes are known before a model loads
    with open_arms(plan.arms, plan.target, shell.tools) as arms:
        items = load(plan.data, plan.sampling, counter(arms), folder=study.base)
        yield Session(
            study=study, items=items, arms=arms, shell=shell, grades=Grades(items.all),
            lineage=lineage(
                plan, items.digests, arms, shell.manifest, program=shell.program
            ),
        )  # fmt: skip


def counter(arms: Mapping[str, OpenArm]) -> Callable[[str], int] | None:
    """Counts tokens with the tokenizer of an arm in this process; None without any."""
    for arm in arms.values():
        if isinstance(arm, LocalArm):
            tokenizer = arm.model.tokenizer
            return lambda text: len(tokenizer.encode(text, special=False))
    return None
