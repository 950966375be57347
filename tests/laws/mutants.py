"""Planted bugs: each is one edit of the real source, and the cases that must notice it."""

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from laws.cases import BY_NAME
from laws.coin_checks import check_apart, check_edges
from laws.equal import check_same_text
from laws.row_checks import check_greedy_under_a_grammar
from laws.world import Case, check
from outpace.core import accept, coins, law, repeat, resample, sequence
from outpace.evaluate.exact.law import guesser

Check = Callable[[], object]


def named(name: str) -> Case:
    """The case of that name, or the only one that begins with it."""
    if name in BY_NAME:
        return BY_NAME[name]
    (found,) = (case for n, case in BY_NAME.items() if n.startswith(name + " "))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in `where`, a name in `module`; each killer alone must notice."""

    name: str
    module: ModuleType
    where: str
    old: str
    new: str
    killers: tuple[str | Check, ...]

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Put the edited function in place of the real one, wherever it was imported."""
        owner: Any = self.module  # a module or one of its classes
        *outer, name = self.where.split(".")
        for part in outer:
            owner = getattr(owner, part)
        real: Any = inspect.getattr_static(owner, name)
        source = textwrap.dedent(inspect.getsource(getattr(real, "fget", real)))
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} is not once in {self.where}; edit both")
        made: dict[str, Any] = {}
        code = compile(source.replace(self.old, self.new), f"<{self.name}>", "exec")
        exec(code, vars(self.module), made)  # noqa: S102  # our own source, edited
        patch.setattr(owner, name, made[name])
        if real in accept._RULES.values():
            patch.setitem(accept._RULES, name, made[name])
        for key, module in list(sys.modules.items()):
            if key.startswith(("outpace.core.", "laws.")) and vars(module).get(name) is real:
                patch.setattr(module, name, made[name])

    def checks(self) -> list[Check]:
        """The killers as functions."""
        return [partial(check, named(k)) if isinstance(k, str) else k for k in self.killers]


def _mutant(
    name: str, module: ModuleType, where: str, edit: tuple[str, str], *killers: str | Check
) -> Mutant:
    old, new = edit
    return Mutant(name=name, module=module, where=where, old=old, new=new, killers=killers)


_LAW = (
    _mutant("greedy as softmax", law, "Laws.law",
            ("one_hot(self._likeliest[row], scores_V)", "scores_V.softmax(0)"),
            "temperature 0 token chain2 without", "temperature 0 block chain3 without"),
    _mutant("greedy as a coupled draw", law, "Laws._choose",
            ("return self._likeliest[row]", "return coins.coupled(self.scores(row), position)"),
            "all penalties cold match elbow chosen"),
    _mutant("penalties, bans and grammar on stale history", law, "Laws.scores",
            ("self._paths[row]", "()"),
            "frequency 0.9 token chain2 without", "grammar no repeats block chain3 without"),
    _mutant("penalties on stale history", law, "Laws._penalised", ("seen(path)", "seen()"),
            "all penalties match chain2 coupled"),
    _mutant("penalties count the prompt", law, "History.seen",
            ("where[len(self.prompt) :]", "where"), "presence 1.1 token chain2 without"),
    _mutant("banned sequences on stale history", law, "Laws._restricted",
            ("self._tail(path,", "self._tail((),"), "banned pair token chain2 without"),
    _mutant("mask not applied to the guesses' rows", law, "Laws._restricted",
            ("self._mask.allowed(path)", "self._mask.allowed(())"),
            "grammar no repeats token chain2 without", "grammar pairs match elbow chosen"),
    _mutant("the likeliest token is taken whatever the grammar says", law, "Laws._agreed",
            ("best if allowed else None", "best"), check_greedy_under_a_grammar),
    _mutant("the likeliest token's place in the grammar is stale", law, "Laws._agreed",
            ("self._paths[row], best", "(), best"), check_greedy_under_a_grammar),
    _mutant("forced tokens leave the grammar", law, "Laws._restricted",
            ("if self._mask is not None:", "if self._mask is not None and not s.forced:"),
            "grammar against forced token chain2 without"),
    _mutant("mask not told of the text", sequence, "Sequence.commit",
            ("self.mask.advance(token)", "pass"), "grammar pairs match elbow chosen"),
    _mutant("mask told of a round's last token only", sequence, "Sequence.commit",
            ("if self.mask is not None:", "if self.mask is not None and token == tokens[-1]:"),
            "grammar pairs token chain2 without"),
    _mutant("min_tokens and forced counting rounds", law, "Laws._restricted",
            ("len(self._history.output) + len(path)", "len(self._history.output)"),
            "min_tokens 2 token chain2 without", "forced 2 block chain2 chosen"),
    _mutant("top_p without the token that reaches it", law, "nucleus_size",
            ("return reached + 1", "return max(1, reached)"), "top_p 0.9 token chain2 without"),
    _mutant("top_p of what top_k left, not rescaled", law, "filter_support",
            ("_rescale(p_V)", "p_V"), "top_k 2 top_p 0.7 token chain2 without"),
    _mutant("min_p excludes its own bar", law, "filter_support",
            ("p_V >= sampling.min_p", "p_V > sampling.min_p"), "min_p 1 token chain2 without"),
    _mutant("the coupled draw forgets top_k", law, "Laws.coupled_scores",
            ("if s.top_k or", "if"), "top_k 2 match chain2 coupled"),
    _mutant("a filtered law is not rescaled before the ratio", law, "Laws._warm_law",
            ("else _rescale(kept_V)", "else kept_V"), "top_k 2 token chain2 without"),
)  # fmt: skip

_ACCEPT = (
    _mutant("match keeps the eldest guess", accept, "match",
            ("c for c in children if draft.tokens[c] == y", "c for c in children"),
            "match chain2 coupled half", "match fork chosen half"),
    _mutant("residual without q", resample, "residual", ("(p_V - q_V)", "(1.0 * p_V)"),
            "token chain1 without half", "block chain2 without half", "traversal fork with half"),
    _mutant("residual from raw logits", accept, "token",
            ("p_V = residual(p_V, q_V)",
             "p_V = residual(laws._logits_AV[node + 1].softmax(0), q_V)"),
            "top_k 2 token chain2 without", "repetition 1.7 token elbow chosen"),
    _mutant("bonus from q", accept, "token",
            ("weights_V=p_V", "weights_V=p_V if kept is None and len(path) < draft.depth "
                              "else draft.law(path[-1])"),
            "token chain2 without half", "deep token chain3 without half"),
    _mutant("one coin for every guess", accept, "token",
            ("start + len(path), child)", "start, 0)"),
            "token chain3 without half", "token triple without random"),
    _mutant("one coin for every guess of a block", accept, "block",
            ("start + i - 1, node)", "start, 0)"), "block chain3 without half"),
    _mutant("block with the token rule's residual", accept, "block",
            ("residual(weights[tau] * p_NV[tau]", "residual(p_NV[tau]"),
            "block chain2 without random", "block chain3 without random"),
    _mutant("block with an early exit", accept, "block",
            ("            tau = i", "            tau = i\n        else:\n            break"),
            "block chain2 without half"),
    _mutant("block weighs what follows by 1", accept, "block",
            ("_excess(weight,", "_excess(1.0,"), "block chain3 without half"),
    _mutant("block's last guess judged like the others", accept, "block",
            ("h = weight if i == n else share(mass, weight)", "h = share(mass, weight)"),
            "block chain1 without half"),
    _mutant("without replacement subtracting only x (token)", accept, "token",
            ("residual(p_V, q_V)",
             "residual(p_V, torch.zeros_like(p_V).index_fill(0, torch.tensor([x]), q))"),
            "token fork without half", "token triple without random"),
    _mutant("without replacement subtracting only x (traversal)", accept, "traversal",
            ("residual(a * p_V, q_V, or_V=p_V)",
             "residual(a * p_V, torch.zeros_like(p_V).index_fill(0, torch.tensor([x]), qx))"),
            "traversal fork without half"),
    _mutant("sibling law not renormalised", accept, "_siblings",
            ("q_V = q_V / left", "pass"), "token fork without half", "traversal fork without half"),
    _mutant("sibling law still has the elder", accept, "_siblings",
            ("q_V[elder] = 0", "pass"), "token fork without half", "traversal fork without half"),
    _mutant("siblings with replacement treated as without", accept, "_siblings",
            ("and not draft.replacement", ""), "token fork with half", "traversal fork with half"),
    _mutant("traversal with its weight not updated", accept, "traversal",
            ("a = share(mass, a)", "pass"), "traversal elbow without half"),
    _mutant("traversal with the elder's weight for the younger", accept, "traversal",
            ("scaled_ratio(a, px, qx)", "scaled_ratio(weight, px, qx)"),
            "traversal late without half", "traversal late with random"),
    _mutant("traversal with the token rule's ratio", accept, "traversal",
            ("scaled_ratio(a, px, qx)", "ratio(px, qx)"), "traversal chain2 without half"),
    _mutant("traversal with the token rule's residual", accept, "traversal",
            ("residual(a * p_V,", "residual(p_V,"), "traversal late with random"),
    _mutant("guesses after a dead end are judged", accept, "_children",
            ("() if children and laws.dead(node + 1) else children", "children"),
            "dead end block chain3 without", "dead end traversal late with"),
)  # fmt: skip

_ROUND = (
    _mutant("the accept coin drawn again for the next token", resample, "resample",
            ("Purpose.RESAMPLE", "Purpose.ACCEPT"), "token chain1 without half"),
    _mutant("the draft coin drawn again for the next token", resample, "resample",
            ("Purpose.RESAMPLE", "Purpose.DRAFT"), "token chain1 without half"),
    _mutant("fresh coins keyed without since", sequence, "Sequence.coins",
            ("len(self.tokens)", "0"), "chain2 then fork traversal"),
    _mutant("EOS ignored inside the block", sequence, "Sequence.commit",
            ("if self.finish is not None:", "if self.finish not in (None, 'eos'):"),
            "eos token chain2 without", "two eos block chain3 without"),
    _mutant("stop string scanned only at block ends", sequence, "Sequence.commit",
            ("if self.finish is not None:", "if self.finish not in (None, 'stop_string'):"),
            "stop string over tokens token chain2 without"),
    _mutant("length before eos", sequence, "Sequence._end_after",
            ("if len(self.output) >= s.min_tokens:",
             "if len(self.output) >= s.min_tokens and len(self.output) != s.max_tokens:"),
            "max_tokens 2 and eos token chain2 without"),
    _mutant("depth beyond the room", repeat, "_ask",
            ("min(turn.max_depth, seq.room - 1)", "turn.max_depth"),
            "context 4 token chain2 without"),
    _mutant("an impossible guess ends the request after its eos", repeat, "_finish_round",
            ("if impossible is not None and seq.finish is None:", "if impossible is not None:"),
            "dead end after eos token chain2 without"),
    _mutant("the kept path is not counted as read", repeat, "_finish_round",
            ("seq.n_computed += n + len(path)", "seq.n_computed += n"),
            "token chain1 without half"),
    _mutant("logits of the wrong rows", repeat, "_score",
            ("range(n - 1, n + len(draft))", "(n - 1, *range(n - 1, n + len(draft) - 1))"),
            "token chain1 without half"),
)  # fmt: skip

_COINS = (
    _mutant("u <= a", coins, "SeededCoins.bernoulli", (") < a", ") <= a"), check_edges),
    _mutant("inverse CDF from the left", coins, "inverse_cdf",
            ("right=True", "right=False"), check_edges),
    _mutant("the same coin at every position", coins, "toss",
            ("since, position, branch", "since, branch"), check_apart),
    _mutant("the same coin in every round", coins, "toss",
            ("since, position, branch", "position, branch"), check_apart),
    _mutant("the same coin for every purpose", coins, "toss",
            ("purpose, since", "since"), check_apart),
    _mutant("the coupled noise follows the row", law, "Laws._choose",
            ("coins.coupled(self.coupled_scores(row), position)",
             "coins.coupled(self.coupled_scores(row), position + row)"), check_same_text),
    _mutant("the coupled noise follows the round", coins, "SeededCoins.coupled",
            ("self.seed, position)", "self.seed + self.since, position)"), check_same_text),
)  # fmt: skip

_DRAFTER = (
    _mutant("dropping the low-probability draw", guesser, "Guesser.guess",
            ("if token is not None:", "if token is not None and tree.laws[row][token] >= 0.3:"),
            "token chain2 without half", "block chain2 without half"),
    _mutant("draft law raw while sampled top-k'd", guesser, "Guesser.pick",
            ("left_V = q_V.clone()", "left_V = q_V * (q_V > q_V.min())"),
            "token chain1 without half", "block chain2 without random"),
    _mutant("an argmax guess with a soft law", guesser, "Guesser.pick",
            ("return ask.coins.categorical(left_V, Purpose.DRAFT, position, branch)",
             "return int(left_V.argmax())"),
            "token chain1 without half"),
    _mutant("one draft coin for every guess", guesser, "Guesser.pick",
            ("Purpose.DRAFT, position, branch", "Purpose.DRAFT, 0"), "token chain2 without random"),
    _mutant("q of the wrong row", guesser, "Guesser.guess",
            ("tree.add(token, parent, row)", "tree.add(token, parent, 0)"),
            "token chain2 without random"),
)  # fmt: skip

MUTANTS = (*_LAW, *_ACCEPT, *_ROUND, *_COINS, *_DRAFTER)
