"""A request as the engine needs it, whichever path it came in by."""

from dataclasses import dataclass

from outpace.control.limits import Limits
from outpace.core.sampling import Sampling
from outpace.server.answer.tools import ToolFormat
from outpace.server.ask.grammar import MakeMask
from outpace.server.settings import MetricsLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """What of an answer is shown, and how.

    continues: the text continues its prompt (a tokenizer's own first space stays). special:
    control tokens are spelled out. token_ids, rounds: beside the text. ids_as_tokens: tokens in
    log-probabilities read `token_id:42`. echo: the prompt comes first. prompt_logprobs: reports on
    the prompt, apart from those an echo needs. nothing_new: only the prompt was wanted.
    """

    continues: bool = False
    special: bool = False
    token_ids: bool = False
    rounds: bool = False
    ids_as_tokens: bool = False
    echo: bool = False
    prompt_logprobs: bool = False
    nothing_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Prompts, and what is asked of each.

    n: answers per prompt. limits: None = the control decides. echoes: the prompts' texts, where
    they are shown. usage: whether a stream ends with its usage; running_usage: every chunk has it.
    piece_s: least time between pieces of a stream. tools: how to find calls in the text.
    """

    prompts: tuple[tuple[int, ...], ...]
    sampling: Sampling
    n: int
    limits: Limits | None
    make_mask: MakeMask | None
    show: Show
    metrics: MetricsLevel
    stream: bool
    usage: bool
    running_usage: bool
    piece_s: float
    tools: ToolFormat | None = None

    @property
    def n_choices(self) -> int:
        """Answers in all."""
        return self.n * len(self.prompts)

    @property
    def n_prompt_tokens(self) -> int:
        """Tokens of all prompts, each counted once however many answers it gets."""
        return sum(len(prompt) for prompt in self.prompts)
