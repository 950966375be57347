"""The bodies a client gets: completions, chunks of a stream, models, tokens.

Serialised with `exclude_unset`: a field is in the document because it was set, null included, as
OpenAI's clients expect of `finish_reason` and `logprobs`; our extensions appear only when asked.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

_CONFIG = ConfigDict(frozen=True, extra="forbid")


class Usage(BaseModel):
    """Token counts: of prompts (each once) and of all answers, end tokens included."""

    model_config = _CONFIG

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class TopLogprob(BaseModel):
    """One alternative."""

    model_config = _CONFIG

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(BaseModel):
    """One token of an answer, and the likeliest alternatives to it."""

    model_config = _CONFIG

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Raw log-probabilities: log-softmax of the model's logits, before any processing."""

    model_config = _CONFIG

    content: list[TokenLogprob]


class CompletionLogprobs(BaseModel):
    """The same in the older shape; None for a prompt's first token."""

    model_config = _CONFIG

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class PromptLogprob(BaseModel):
    """vLLM's shape; `prompt_logprobs` maps token ids to these."""

    model_config = _CONFIG

    logprob: float
    rank: int
    decoded_token: str


class FunctionCall(BaseModel):
    """arguments: JSON in a string."""

    model_config = _CONFIG

    name: str
    arguments: str


class ToolCall(BaseModel):
    """A call the model made."""

    model_config = _CONFIG

    id: str
    type: Literal["function"]
    function: FunctionCall
    index: int | None = None


class ChatMessage(BaseModel):
    """What the model said: whole, or what a chunk adds."""

    model_config = _CONFIG

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None


class Guess(BaseModel):
    """One guessed token. parent: the guess before it, by index; -1 = directly after the text.
    kept: it is part of the answer. drafter: who guessed it, where several do. text: None where a
    rejected guess could be another caller's text."""

    model_config = _CONFIG

    text: str | None
    parent: int
    kept: bool
    drafter: str | None


class RoundReport(BaseModel):
    """What one round added. texts: of its tokens, joined over all rounds the answer's text; a
    token that ends no whole character has "". kept: how many of them, the first ones, are guesses;
    what follows is the target's own choice."""

    model_config = _CONFIG

    texts: list[str]
    kept: int
    guesses: list[Guess]


class Choice(BaseModel):
    """One answer, or what a chunk adds to it: `message` or `delta` in chats, else `text`.

    stop_reason: the stop string or token id that ended it. rounds: as asked by return_rounds.
    """

    model_config = _CONFIG

    index: int
    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    text: str | None = None
    logprobs: ChatLogprobs | CompletionLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    rounds: list[RoundReport] | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None


class Response(BaseModel):
    """A whole response, or one chunk of a stream.

    metrics: what speculation did for it, under `speculative_decoding` (vLLM's fields) and
    `outpace` (ours).
    """

    model_config = _CONFIG

    id: str
    object: str
    created: int
    model: str
    system_fingerprint: str | None = None
    choices: list[Choice]
    usage: Usage | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None
    metrics: dict[str, Any] | None = None
