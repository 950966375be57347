"""What the target alone would write: every processor and every end, written the obvious way.

Plain Python floats, sorts and loops; nothing is imported from the code under test but the
parameters' names. Slow, and easy to check by eye.
"""

import math
from collections.abc import Callable, Hashable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.core.sampling import Sampling
from outpace.runtimes.toy import Table

Text = tuple[int, ...]
Allowed = Callable[[Text], Iterable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table model, a request, and where its texts end.

    spelled: the string of each token id. allowed: a grammar, asked with the text so far.
    """

    table: Table
    vocab_size: int
    prompt: Text
    sampling: Sampling
    eos_ids: frozenset[int] = frozenset()
    context_tokens: int = 64
    spelled: Seq[str] = ("a", "b", "c", "d")
    allowed: Allowed | None = None

    def law(self, text: Text) -> list[float]:
        """The law of the token after prompt + text; all zero where no token may follow."""
        x = self._scores(text)
        best = max(x)
        if best == -math.inf:
            return [0.0] * len(x)
        t = self.sampling.temperature
        if t == 0:
            return [float(v == x.index(best)) for v in range(len(x))]
        p = _normal([math.exp((score - best) / t) for score in x])
        s = self.sampling
        ranked = sorted(range(len(p)), key=lambda v: (-p[v], v))
        if s.top_k:
            p = _only(p, ranked[: s.top_k])
        if s.top_p < 1:
            total, kept = 0.0, []
            for v in ranked:
                kept.append(v)
                total += p[v]
                if total >= s.top_p:
                    break
            p = _only(p, kept)
        if s.min_p > 0:
            p = _only(p, [v for v in range(len(p)) if p[v] >= s.min_p * max(p)])
        return p

    def _scores(self, text: Text) -> list[float]:
        s = self.sampling
        x = [float(score) for score in self.table((*self.prompt, *text))]
        for v in range(len(x)):
            if v in self.prompt or v in text:
                x[v] = x[v] / s.repetition_penalty if x[v] > 0 else x[v] * s.repetition_penalty
            if v in text:
                x[v] -= s.presence_penalty + s.frequency_penalty * text.count(v)
            x[v] += s.logit_bias.get(v, 0.0)
            if any((*text[len(text) + 1 - len(b) :], v) == b for b in s.banned):
                x[v] = -math.inf
            if len(text) < s.min_tokens and self._ends_text(v) is not None:
                x[v] = -math.inf
            if self.allowed is not None and v not in set(self.allowed(text)):
                x[v] = -math.inf
        if len(text) < len(s.forced):
            forced = s.forced[len(text)]
            ok = self.allowed is None or forced in set(self.allowed(text))
            return [0.0 if v == forced and ok else -math.inf for v in range(len(x))]
        return x

    def _ends_text(self, token: int) -> str | None:
        if token in self.eos_ids and not self.sampling.ignore_eos:
            return "eos"
        return "stop_token" if token in self.sampling.stop_token_ids else None

    def end(self, text: Text) -> str | None:
        """Why the text ends here, if it does."""
        s = self.sampling
        if not text:
            return None
        if self._ends_text(text[-1]) and len(text) >= s.min_tokens:
            return self._ends_text(text[-1])
        written = "".join(self.spelled[v] for v in text)
        if any(stop in written for stop in s.stop):
            return "stop_string"
        if s.max_tokens is not None and len(text) >= s.max_tokens:
            return "length"
        if len(self.prompt) + len(text) >= self.context_tokens:
            return "context"
        return None

    def texts(self, n_watched: int) -> dict[Hashable, float]:
        """The law of (text, why it ended), watched for at most `n_watched` tokens."""
        law: dict[Hashable, float] = {}

        def go(text: Text, weight: float) -> None:
            end = self.end(text)
            if end is not None or len(text) == n_watched:
                law[text, end] = law.get((text, end), 0.0) + weight
                return
            p = self.law(text)
            if not any(p):
                law[text, "error"] = weight
            for v, share in enumerate(p):
                if share > 0:
                    go((*text, v), weight * share)

        go((), 1.0)
        return law


def _normal(weights: Seq[float]) -> list[float]:
    total = math.fsum(weights)
    return [w / total for w in weights]


def _only(p: Seq[float], kept: Iterable[int]) -> list[float]:
    chosen = set(kept)
    return _normal([w if v in chosen else 0.0 for v, w in enumerate(p)])
