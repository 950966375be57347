"""Log-probabilities in the three shapes clients know: chat's, plain completions', and vLLM's."""

import math
from collections.abc import Iterable
from collections.abc import Sequence as Seq

from outpace.core.score import TokenLogprobs
from outpace.server.ask.job import Show
from outpace.server.wire.responses import (
    ChatLogprobs,
    CompletionLogprobs,
    PromptLogprob,
    TokenLogprob,
    TopLogprob,
)
from outpace.text.stream import TextStream
from outpace.text.tokenizer import Tokenizer

# JSON has no minus infinity; OpenAI's API says this for the impossible.
_LEAST = -9999.0


class Speller:
    """Spells tokens for clients: their text, or their bytes where they are no whole text."""

    def __init__(self, tokenizer: Tokenizer, show: Show) -> None:
        self._tokenizer = tokenizer
        self._show = show

    def word(self, token: int) -> str:
        """Different for different bytes, as OpenAI spells them."""
        if self._show.ids_as_tokens:
            return f"token_id:{token}"
        data = self._tokenizer.token_bytes(token)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def chat(self, reports: Iterable[TokenLogprobs]) -> ChatLogprobs:
        """The shape of `/v1/chat/completions`."""
        return ChatLogprobs(
            content=[
                TokenLogprob(
                    token=self.word(report.token),
                    logprob=_finite(report.logprob),
                    bytes=list(self._tokenizer.token_bytes(report.token)),
                    top_logprobs=[
                        TopLogprob(
                            token=self.word(token),
                            logprob=_finite(logprob),
                            bytes=list(self._tokenizer.token_bytes(token)),
                        )
                        for token, logprob in report.top
                    ],
                )
                for report in reports
            ]
        )

    def prompt(
        self, tokens: Seq[int], reports: Seq[TokenLogprobs]
    ) -> list[dict[str, PromptLogprob] | None]:
        """vLLM's `prompt_logprobs`: by position, token ids to values; None for the first."""
        found: list[dict[str, PromptLogprob] | None] = [None]
        for token, report in zip(tokens[1:], reports, strict=True):
            ranks = {t: (logprob, rank) for rank, (t, logprob) in enumerate(report.top, 1)}
            ranks[token] = (report.logprob, report.rank)
            found.append(
                {
                    str(t): PromptLogprob(
                        logprob=_finite(logprob), rank=rank, decoded_token=self.word(t)
                    )
                    for t, (logprob, rank) in ranks.items()
                }
            )
        return found


class CompletionScribe:
    """The shape of `/v1/completions`, chunk after chunk: offsets count from its start."""

    def __init__(self, speller: Speller, tokenizer: Tokenizer, show: Show) -> None:
        self._speller = speller
        continues = show.continues and not show.echo
        self._text = TextStream(tokenizer, continues=continues, show_special=show.special)
        self._n_chars = 0

    def write(
        self, tokens: Seq[int], reports: Seq[TokenLogprobs | None], n_top: int
    ) -> CompletionLogprobs:
        """Of these tokens; a report of None is a prompt's first token."""
        offsets: list[int] = []
        for token in tokens:
            offsets.append(self._n_chars)
            self._n_chars += len(self._text.push([token]))
        return CompletionLogprobs(
            tokens=[self._speller.word(token) for token in tokens],
            token_logprobs=[None if r is None else _finite(r.logprob) for r in reports],
            top_logprobs=[self._top(r) for r in reports] if n_top else None,
            text_offset=offsets,
        )

    def _top(self, report: TokenLogprobs | None) -> dict[str, float] | None:
        """The likeliest, and the token itself if it is not among them."""
        if report is None:
            return None
        pairs = dict(report.top)
        pairs.setdefault(report.token, report.logprob)
        return {self._speller.word(t): _finite(logprob) for t, logprob in pairs.items()}


def _finite(logprob: float) -> float:
    return logprob if math.isfinite(logprob) else _LEAST
