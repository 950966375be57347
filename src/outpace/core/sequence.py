"""A request in flight: its tokens, how far the runtime has read them, and where it must end.

Only the engine changes a sequence, by running rounds; everyone else reads.
"""

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from typing import Literal, Protocol

from outpace.core.coins import Coins, SeededCoins
from outpace.core.draft import Style
from outpace.core.law import History, TokenMask
from outpace.core.sampling import Sampling
from outpace.core.score import TokenLogprobs, Traits
from outpace.errors import PromptTooLong, RequestError

# Why a text ended: the model's own end, a stop token id, a stop string, max_tokens, a full
# context, the caller's abort, or an error of this request.
Finish = Literal["eos", "stop_token", "stop_string", "length", "context", "abort", "error"]

# (seed, length of the text when the round begins) -> that round's coins.
CoinsAt = Callable[[int, int], Coins]


class StopScan(Protocol):
    """Looks for stop strings as the text grows; one per sequence, fed each token once."""

    def completes(self, token: int) -> bool:
        """Whether the text with this token appended contains a stop string."""


class Sequence:
    """The committed text of one request and the facts its rounds need.

    logprobs: one report per token of the answer, prompt_logprobs: one per prompt token but the
    first; both empty unless the sampling asks.

    Raises:
        PromptTooLong: no room for even one token after the prompt.
        RequestError: an empty prompt, or token ids the model does not have.
    """

    def __init__(
        self,
        *,
        key: int,
        prompt: Seq[int],
        sampling: Sampling,
        seed: int,
        traits: Traits,
        stops: StopScan | None = None,
        mask: TokenMask | None = None,
        coins_at: CoinsAt = SeededCoins,
    ) -> None:
        if not prompt:
            raise RequestError("the prompt is empty; give at least one token of text")
        bad = [t for t in prompt if not 0 <= t < traits.vocab_size]
        if bad:
            raise RequestError(
                f"the prompt has token ids {bad[:5]}; the model's are 0 to {traits.vocab_size - 1}"
            )
        if len(prompt) >= traits.context_tokens:
            raise PromptTooLong(n_tokens=len(prompt), limit_tokens=traits.context_tokens)
        sampling.check_vocabulary(traits.vocab_size)
        self.key = key
        self.n_prompt = len(prompt)
        self.tokens: list[int] = list(prompt)
        self.history = History(tuple(prompt))
        self.sampling = sampling
        self.seed = seed if sampling.seed is None else sampling.seed
        self.traits = traits
        self.mask = mask
        self.n_computed = 0
        self.finish: Finish | None = None
        self.error: RequestError | None = None
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs] = []
        self._stops = stops
        self._coins_at = coins_at

    @property
    def output(self) -> list[int]:
        """The committed tokens after the prompt."""
        return self.history.output

    @property
    def behind(self) -> int:
        """Committed tokens the runtime has not read yet; at least 1 while in flight."""
        return len(self.tokens) - self.n_computed

    @property
    def may_be_known(self) -> Seq[int]:
        """The beginning a runtime need not read again: not what a report is still owed for."""
        if self.sampling.prompt_logprobs is None or self._n_unreported == 0:
            return self.tokens
        return self.tokens[: 1 + len(self.prompt_logprobs)]  # the last of these has no known row

    @property
    def _n_unreported(self) -> int:
        return self.n_prompt - 1 - len(self.prompt_logprobs)

    def prompt_rows(self, catch_up: int) -> range:
        """Which of the next `catch_up` rows a report on the prompt needs."""
        if self.sampling.prompt_logprobs is None:
            return range(0)
        last = self.n_prompt - 1 - self.n_computed
        return range(len(self.prompt_logprobs) - self.n_computed, min(catch_up, last))

    @property
    def room(self) -> int:
        """Most tokens that may still be committed."""
        room = self.traits.context_tokens - len(self.tokens)
        if self.sampling.max_tokens is not None:
            room = min(room, self.sampling.max_tokens - len(self.output))
        return room

    @property
    def coins(self) -> Coins:
        """The coins of the round that begins now."""
        return self._coins_at(self.seed, len(self.tokens))

    @property
    def style(self) -> Style:
        """How guesses for this request should be picked."""
        s = self.sampling
        if s.greedy:
            return "chosen"
        if s.rule == "match" or (s.rule is None and s.seed is not None):
            return "coupled"
        return "drawn"

    def commit(self, tokens: Iterable[int]) -> list[int]:
        """Append tokens up to the earliest end; returns those committed and sets `finish`."""
        committed: list[int] = []
        for token in tokens:
            committed.append(token)
            self.tokens.append(token)
            self.history.output.append(token)
            if self.mask is not None:
                self.mask.advance(token)
            self.finish = self._end_after(token)
            if self.finish is not None:
                break
        return committed

    def _end_after(self, token: int) -> Finish | None:
        s = self.sampling
        # Fed even if another end comes first: the scan must see every committed token.
        stopped = self._stops is not None and self._stops.completes(token)
        if len(self.output) >= s.min_tokens:
            if token in self.traits.eos_ids and not s.ignore_eos:
                return "eos"
            if token in s.stop_token_ids:
                return "stop_token"
        if stopped:
            return "stop_string"
        if s.max_tokens is not None and len(self.output) >= s.max_tokens:
            return "length"
        if len(self.tokens) >= self.traits.context_tokens:
            return "context"
        return None
