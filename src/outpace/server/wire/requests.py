"""The bodies of `/v1/chat/completions` and `/v1/completions`, and of the tokenizer's two paths.

Types only; ranges are `Sampling`'s to check, so that the API, the library and the command line
refuse the same values in the same words. Everything is strict: "1" is no number, true is none
either. Fields that are listed nowhere here arrive in `model_extra` (see `body.py`).
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from outpace.server.settings import MetricsLevel

# Numbers that JSON can spell and a law can use.
Number = Annotated[float, Field(allow_inf_nan=False)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]
Text = Annotated[str, StringConstraints(min_length=1)]

_CONFIG = ConfigDict(strict=True, frozen=True, extra="allow", hide_input_in_errors=True)


class StreamOptions(BaseModel):
    """Extras of a stream."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)

    include_usage: bool = False
    continuous_usage_stats: bool = False


class GenerationRequest(BaseModel):
    """What chat and plain completions share.

    speculation: off, auto or fixed:N. speculation_metrics: how much the response says of it.
    return_rounds: what each round guessed, which guesses were kept, and the tokens it gave.
    Beyond OpenAI's fields the other names are vLLM's.
    """

    model_config = _CONFIG

    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1)] | None = 1
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    temperature: Number | None = 1.0
    top_p: Number | None = 1.0
    top_k: int | None = 0
    min_p: Number | None = 0.0
    repetition_penalty: Number | None = 1.0
    presence_penalty: Number | None = 0.0
    frequency_penalty: Number | None = 0.0
    logit_bias: dict[str, Number] | None = None
    min_tokens: int | None = 0
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    ignore_eos: bool | None = False
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    prompt_logprobs: Annotated[int, Field(ge=0)] | None = None
    skip_special_tokens: bool | None = True
    return_token_ids: bool | None = False
    return_tokens_as_token_ids: bool | None = False
    return_rounds: bool | None = False
    speculation: str | None = "auto"
    speculation_metrics: MetricsLevel | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    guided_json: Any = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None


class Message(BaseModel):
    """One turn of a conversation; what else it holds goes to the model's template as it is."""

    model_config = _CONFIG

    role: Text
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


class Function(BaseModel):
    """A function the model may call; `parameters` is its JSON Schema, `strict`: always kept."""

    model_config = _CONFIG

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(BaseModel):
    """A tool; functions are the only kind there is."""

    model_config = _CONFIG

    type: Literal["function"]
    function: Function


class ChatRequest(GenerationRequest):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0)] | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    add_generation_prompt: bool | None = True
    chat_template_kwargs: dict[str, Any] | None = None


class CompletionRequest(GenerationRequest):
    """`POST /v1/completions`."""

    prompt: str | TokenIds | list[str] | list[TokenIds]
    suffix: str | None = None
    echo: bool | None = False
    logprobs: Annotated[int, Field(ge=0)] | None = None
    add_special_tokens: bool | None = True


class TokenizeRequest(BaseModel):
    """`POST /tokenize`: a text, or a conversation through the model's template."""

    model_config = _CONFIG

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[Tool] | None = None
    add_special_tokens: bool | None = True
    add_generation_prompt: bool | None = True
    return_token_strs: bool | None = False


class DetokenizeRequest(BaseModel):
    """`POST /detokenize`: token ids to text."""

    model_config = _CONFIG

    model: str | None = None
    tokens: list[TokenId]
