"""What the caller asked of the text: the law's parameters and the text's ends.

A `Sampling` checks itself once, at birth; after that nobody checks again. `law.py` turns it and
the model's logits into probabilities.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from outpace.errors import RequestError

Rule = Literal["match", "token", "block", "traversal"]
RULES: tuple[Rule, ...] = ("match", "token", "block", "traversal")

_MAX_SEED = 2**64 - 1
_MAX_STOPS = 64


def _require(ok: bool, name: str, found: object, allowed: str) -> None:
    if not ok:
        raise RequestError(f"{name} is {found!r}; allowed: {allowed}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token is chosen and where the text ends. All fields have the field's names.

    temperature: 0 = always the likeliest token (lowest id on a tie); no upper limit.
    top_k: keep the k likeliest tokens; 0 or more than the vocabulary = all.
    top_p: keep the fewest likeliest tokens whose probabilities reach p; 1 = all.
    min_p: keep tokens at least min_p times as likely as the likeliest; 0 = all.
    repetition_penalty: divides positive and multiplies negative logits of tokens already in the
        prompt or the text; 1 = none.
    presence_penalty, frequency_penalty: subtracted from logits of tokens already in the text
        (once, and per occurrence); 0 = none.
    logit_bias: token id -> added to its logit.
    banned: token sequences that must not appear in the text; one id bans that token.
    forced: the text begins with exactly these tokens.
    min_tokens: no end-of-text and no stop token before this many tokens.
    max_tokens: the text ends after this many tokens; None = when the context is full.
    stop: strings that end the text; the text is cut before the one that completes first.
    stop_token_ids: token ids that end the text (kept in the ids, like an EOS).
    ignore_eos: the model's own end-of-text ids do not end the text.
    seed: the same text for the same seed and model, with or without speculation.
    rule: names the acceptance rule; None = the best exact one for the draft at hand.
    logprobs, prompt_logprobs: report the raw log-probability of every token of the text, of the
        prompt, and of so many likeliest alternatives (`core/score.py`); None = no report. They
        change nothing of the text.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    banned: tuple[tuple[int, ...], ...] = ()
    forced: tuple[int, ...] = ()
    min_tokens: int = 0
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    seed: int | None = None
    rule: Rule | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        self._check_law()
        self._check_ends()
        _require(
            self.seed is None or (_is_int(self.seed) and 0 <= self.seed <= _MAX_SEED),
            "seed", self.seed, f"a whole number from 0 to {_MAX_SEED}, or none",
        )  # fmt: skip
        _require(self.rule in (None, *RULES), "rule", self.rule, f"one of {', '.join(RULES)}")
        for name in ("logprobs", "prompt_logprobs"):
            n = getattr(self, name)
            _require(n is None or (_is_int(n) and n >= 0), name, n, "0 or more, or none")

    def _check_law(self) -> None:
        t = self.temperature
        _require(t >= 0 and math.isfinite(t), "temperature", t, "0 or more, finite")
        _require(_is_int(self.top_k) and self.top_k >= 0, "top_k", self.top_k, "0 (all) or more")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "more than 0, at most 1")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "0 to 1")
        r = self.repetition_penalty
        _require(r > 0 and math.isfinite(r), "repetition_penalty", r, "more than 0, finite")
        for name in ("presence_penalty", "frequency_penalty"):
            _require(math.isfinite(getattr(self, name)), name, getattr(self, name), "finite")
        for token, bias in self.logit_bias.items():
            _require(_is_int(token) and token >= 0, "logit_bias key", token, "token ids, 0 or more")
            _require(not math.isnan(bias) and bias < math.inf, f"logit_bias[{token}]", bias,
                     "a finite number, or -inf to forbid the token")  # fmt: skip
        for words in (*self.banned, self.forced):
            ok = all(_is_int(t) and t >= 0 for t in words)
            _require(ok, "banned or forced token", words, "token ids, 0 or more")
        _require(all(self.banned), "banned", self.banned, "sequences of at least one token")

    def _check_ends(self) -> None:
        n = self.min_tokens
        _require(_is_int(n) and n >= 0, "min_tokens", n, "0 or more")
        m = self.max_tokens
        _require(m is None or (_is_int(m) and m >= 1), "max_tokens", m, "1 or more, or none")
        _require(m is None or m >= n, "min_tokens", n, f"at most max_tokens ({m})")
        _require(not isinstance(self.stop, str), "stop", self.stop, "a tuple of strings")
        ok = all(isinstance(s, str) and s for s in self.stop)
        _require(ok, "stop", self.stop, "strings of at least one character")
        n_stop = len(self.stop)
        _require(n_stop <= _MAX_STOPS, "stop", f"{n_stop} strings", f"at most {_MAX_STOPS}")
        ok = all(_is_int(t) and t >= 0 for t in self.stop_token_ids)
        _require(ok, "stop_token_ids", set(self.stop_token_ids), "token ids, 0 or more")

    @property
    def greedy(self) -> bool:
        """Whether the law is one-hot."""
        return self.temperature == 0

    @property
    def same_text(self) -> bool:
        """Whether the promise is the same *text* (not only the same law)."""
        return (self.greedy or self.seed is not None) and self.rule in (None, "match")

    @property
    def plain_argmax(self) -> bool:
        """Whether the argmax of the raw logits is all a round reads: no processor, no law."""
        return self.greedy and self.same_text and not self.penalises and not self.restricts

    @property
    def penalises(self) -> bool:
        """Whether the law reads which tokens the text already has."""
        return (
            self.repetition_penalty != 1
            or self.presence_penalty != 0
            or self.frequency_penalty != 0
        )

    @property
    def restricts(self) -> bool:
        """Whether some tokens are biased, banned, forced or held back."""
        return bool(self.logit_bias or self.banned or self.forced or self.min_tokens)

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuse token ids the model does not have.

        Raises:
            RequestError: naming the ids and the vocabulary's size.
        """
        ids = {*self.logit_bias, *self.stop_token_ids, *self.forced}
        ids.update(t for words in self.banned for t in words)
        wrong = sorted(t for t in ids if t >= vocab_size)
        _require(not wrong, "token ids", wrong, f"0 to {vocab_size - 1}, the model's vocabulary")
