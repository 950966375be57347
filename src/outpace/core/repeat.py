"""Stage 5, repeat: one round of all five stages, and the state the next one starts from.

`one_round` is the whole of speculative decoding. With a drafter that guesses nothing it is plain
decoding; with sequences that are far behind it is prefill; there is no other loop.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from outpace.core.accept import Verdict, accept, choose_rule
from outpace.core.draft import NO_GUESS, Ask, Draft, Drafter, Seen
from outpace.core.law import Laws
from outpace.core.resample import resample
from outpace.core.score import Rows, Runtime, Scores, one_thread, token_logprobs
from outpace.core.sequence import Finish, Sequence
from outpace.errors import ContractError, RequestError

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one sequence may do in a round, as the schedule and the control decided.

    catch_up: how many of the tokens it is behind are read; fewer than all = no guesses, no token
    yet. max_nodes, max_depth: most guesses. worth: the least chance of being kept for which a
    guess pays for its row. reason: why, in the control's words.
    traced: whether the round must keep its laws for the trace.
    """

    sequence: Sequence
    catch_up: int
    max_nodes: int = 0
    max_depth: int = 0
    worth: float = 0.0
    reason: str = ""
    traced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSeconds:
    """Time per stage; draft and score are the whole batch's."""

    draft: float
    score: float
    accept: float
    resample: float
    repeat: float

    @property
    def total(self) -> float:
        """All stages; in a shared pass, what this sequence waited for."""
        return self.draft + self.score + self.accept + self.resample + self.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one pass added to one sequence: all five stages of it.

    start: absolute position of the first guess and of the first emitted token. n_rows: rows of
    this sequence in the pass. laws: kept only when traced. A prefill round has verdict None.
    next_token is None there, and where no token may follow the kept path (finish "error").
    """

    turn: Turn
    start: int
    n_rows: int
    draft: Draft
    verdict: Verdict | None
    next_token: int | None
    emitted: tuple[int, ...]
    finish: Finish | None
    seconds: StageSeconds
    laws: Laws | None = None

    @property
    def n_kept(self) -> int:
        """Guesses kept."""
        return len(self.verdict.path) if self.verdict else 0


def one_round(runtime: Runtime, drafter: Drafter, turns: Seq[Turn], clock: Clock) -> list[Round]:
    """Draft, score, accept, resample, repeat: for all given sequences at once.

    Commits the tokens to the sequences, lets the runtime keep the accepted paths and tells the
    drafter. A request that turns out impossible ends with finish "error"; the others go on.

    Raises:
        CapacityError: the runtime has no room for the rows; nothing changed.
        ContractError: a drafter or runtime broke its protocol.
    """
    t0 = clock()
    drafts = _draft(runtime, drafter, turns)
    t1 = clock()
    scores = _score(runtime, turns, drafts)
    t2 = clock()
    with one_thread():
        rounds = [
            _finish_round(runtime, turn, draft, score, (t0, t1, t2), clock)
            for turn, draft, score in zip(turns, drafts, scores, strict=True)
        ]
        drafter.observe([_seen(r, s) for r, s in zip(rounds, scores, strict=True)])
    return rounds


def _draft(runtime: Runtime, drafter: Drafter, turns: Seq[Turn]) -> list[Draft]:
    asks = [_ask(runtime, turn) for turn in turns]
    open_asks = [ask for ask in asks if ask is not None]
    answers = iter(drafter.propose(open_asks) if open_asks else ())
    drafts = [NO_GUESS if ask is None else next(answers) for ask in asks]
    for ask, draft in zip(asks, drafts, strict=True):
        if ask is not None:
            _check(ask, draft, drafter.name)
            _check_ids(draft, drafter.name, runtime.traits.vocab_size)
    return drafts


def _ask(runtime: Runtime, turn: Turn) -> Ask | None:
    seq = turn.sequence
    depth = min(turn.max_depth, seq.room - 1)
    if turn.catch_up < seq.behind or turn.max_nodes < 1 or depth < 1:
        return None
    return Ask(
        key=seq.key,
        tokens=seq.tokens,
        n_prompt=seq.n_prompt,
        max_nodes=turn.max_nodes,
        max_depth=depth,
        worth=turn.worth,
        trees=runtime.traits.trees and seq.sampling.rule != "block",
        style=seq.style,
        sampling=seq.sampling,
        coins=seq.coins,
        mask=seq.mask,
    )


def _check(ask: Ask, draft: Draft, name: str) -> None:
    if len(draft) > ask.max_nodes or draft.depth > ask.max_depth:
        raise ContractError(
            f"drafter {name!r} offered {len(draft)} guesses, {draft.depth} deep; "
            f"asked for at most {ask.max_nodes}, {ask.max_depth} deep"
        )
    if not ask.trees and not draft.is_chain:
        raise ContractError(f"drafter {name!r} offered a tree where only chains are taken")
    if draft.drawn and ask.style != "drawn" and ask.sampling.rule is None:
        raise ContractError(f"drafter {name!r} drew freely where {ask.style} guesses are needed")


def _check_ids(draft: Draft, name: str, vocab_size: int) -> None:
    # Unchecked, a negative id would silently read the law from its other end.
    bad = [t for t in draft.tokens if not 0 <= t < vocab_size]
    if bad:
        raise ContractError(f"drafter {name!r} guessed ids {bad}; the target has {vocab_size}")
    if draft.laws_LV is not None and draft.laws_LV.shape[-1] != vocab_size:
        raise ContractError(
            f"drafter {name!r} reported laws over {draft.laws_LV.shape[-1]} tokens; the target "
            f"has {vocab_size}"
        )


def _score(runtime: Runtime, turns: Seq[Turn], drafts: Seq[Draft]) -> list[Scores]:
    batch: list[Rows] = []
    for turn, draft in zip(turns, drafts, strict=True):
        seq, n = turn.sequence, turn.catch_up
        first = seq.n_computed
        ends = n == seq.behind  # the last committed token is among the rows
        reports = seq.sampling.logprobs is not None or seq.sampling.prompt_logprobs is not None
        runtime.reserve(seq.key, n + len(draft))
        batch.append(
            Rows(
                key=seq.key,
                tokens=(*seq.tokens[first : first + n], *draft.tokens),
                parents=(*range(-1, n - 1), *(n + parent for parent in draft.parents)),
                asked=(*seq.prompt_rows(n), *(range(n - 1, n + len(draft)) if ends else ())),
                logits=turn.traced
                or reports
                or not seq.sampling.plain_argmax
                or seq.mask is not None,
            )
        )
    return runtime.extend(batch)


def _finish_round(
    runtime: Runtime, turn: Turn, draft: Draft, score: Scores, t: tuple[float, float, float],
    clock: Clock,
) -> Round:  # fmt: skip
    seq, start, n = turn.sequence, len(turn.sequence.tokens), turn.catch_up
    laws: Laws | None = None
    verdict: Verdict | None = None
    token: int | None = None
    impossible: RequestError | None = None
    score = _report_prompt(seq, n, score)
    t2 = t3 = clock()
    if n == seq.behind:
        laws = _laws(seq, draft, score)
        try:
            coins = seq.coins
            verdict = accept(choose_rule(seq.sampling, draft), draft, laws, coins, start)
            t3 = clock()
            token = resample(verdict, laws, coins, start)
        except RequestError as error:
            impossible = error
    t4 = clock()
    path = verdict.path if verdict else ()
    kept = [draft.tokens[node] for node in path]
    emitted = seq.commit(kept if token is None else [*kept, token])
    _report(seq, emitted, [0, *(node + 1 for node in path)], score)
    if impossible is not None and seq.finish is None:  # else the text ended before
        seq.error, seq.finish = impossible, "error"
    runtime.keep(seq.key, [*range(n), *(n + node for node in path)])
    seq.n_computed += n + len(path)
    return Round(
        turn=turn,
        start=start,
        n_rows=n + len(draft),
        draft=draft,
        verdict=verdict,
        next_token=token,
        emitted=tuple(emitted),
        finish=seq.finish,
        seconds=StageSeconds(
            draft=t[1] - t[0], score=t[2] - t[1], accept=t3 - t2, resample=t4 - t3,
            repeat=clock() - t4,
        ),
        laws=laws if turn.traced else None,
    )  # fmt: skip


def _report(seq: Sequence, emitted: Seq[int], rows: Seq[int], score: Scores) -> None:
    n_top = seq.sampling.logprobs
    if n_top is None or score.logits_AV is None:
        return
    for row, token in zip(rows, emitted, strict=False):  # a text may end inside the kept path
        seq.logprobs.append(token_logprobs(score.logits_AV[row], token, n_top))


def _report_prompt(seq: Sequence, n_rows: int, score: Scores) -> Scores:
    """Take the prompt's rows out of the scores; what is left is what the law reads."""
    n_top, rows = seq.sampling.prompt_logprobs, seq.prompt_rows(n_rows)
    if n_top is None or score.logits_AV is None or not rows:
        return score
    for logits_V, row in zip(score.logits_AV, rows, strict=False):
        token = seq.tokens[seq.n_computed + row + 1]
        seq.prompt_logprobs.append(token_logprobs(logits_V, token, n_top))
    return replace(score, logits_AV=score.logits_AV[len(rows) :])


def _laws(seq: Sequence, draft: Draft, score: Scores) -> Laws:
    return Laws(
        sampling=seq.sampling,
        history=seq.history,
        paths=((), *(draft.guesses(node) for node in range(len(draft)))),
        logits_AV=score.logits_AV,
        best_A=score.best_A,
        mask=seq.mask,
        eos_ids=seq.traits.eos_ids,
    )


def _seen(done: Round, score: Scores) -> Seen:
    seq = done.turn.sequence
    hidden_RH = score.hidden_RH
    if hidden_RH is not None:
        n = done.turn.catch_up
        path = done.verdict.path if done.verdict else ()
        together = tuple(path) == tuple(range(len(path)))  # then no row is copied
        rows = slice(n + len(path)) if together else [*range(n), *(n + node for node in path)]
        hidden_RH = hidden_RH[rows]
    return Seen(key=seq.key, start=done.start, tokens=done.emitted, hidden_RH=hidden_RH)
