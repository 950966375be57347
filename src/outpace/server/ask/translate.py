"""Requests in OpenAI's words -> jobs in ours: prompts as ids, one `Sampling`, and how to show it.

Every field is used or refused here; `Sampling` checks the ranges.
"""

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace

from outpace.control.limits import parse_speculation
from outpace.core.sampling import Sampling
from outpace.server.answer.tools import ToolFormat
from outpace.server.ask.grammar import grammar_for
from outpace.server.ask.job import Job, Show
from outpace.server.ask.prompts import chat_prompt, check_prompt, text_prompts
from outpace.server.ask.tools import tool_format
from outpace.server.served import Served
from outpace.server.wire.problems import bad
from outpace.server.wire.requests import ChatRequest, CompletionRequest, GenerationRequest

# OpenAI's default for plain completions; chats may fill the context.
COMPLETION_TOKENS = 16
_SEEDS = 2**64


def chat_job(request: ChatRequest, served: Served) -> Job:
    """A chat completion.

    Raises:
        Problem, RequestError: the request cannot be run as it is.
    """
    tools = tool_format(request, served)
    if request.top_logprobs is not None and not request.logprobs:
        raise bad("top_logprobs needs logprobs: true beside it", param="top_logprobs")
    limits = {request.max_tokens, request.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise bad(
            f"max_tokens is {request.max_tokens} and max_completion_tokens "
            f"{request.max_completion_tokens}; they mean the same, send one",
            param="max_completion_tokens",
        )
    logprobs = (request.top_logprobs or 0) if request.logprobs else None
    sampling = _sampling(request, max_tokens=next(iter(limits), None), logprobs=logprobs)
    prompt = chat_prompt(request, served, with_tools=tools is not None)
    show = Show(
        special=request.skip_special_tokens is False,
        token_ids=bool(request.return_token_ids),
        rounds=bool(request.return_rounds),
        ids_as_tokens=bool(request.return_tokens_as_token_ids),
    )
    return _job(request, served, [prompt], sampling, show, tools)


def completion_job(request: CompletionRequest, served: Served) -> Job:
    """A plain completion.

    Raises:
        Problem, RequestError: the request cannot be run as it is.
    """
    if request.suffix:
        raise bad(
            "suffix is not available: this model writes on, it does not fill in; leave it out",
            param="suffix",
            code="not_available",
        )
    max_tokens = COMPLETION_TOKENS if request.max_tokens is None else request.max_tokens
    nothing_new = bool(request.echo) and max_tokens == 0
    sampling = _sampling(request, max_tokens=max(max_tokens, int(nothing_new)),
                         logprobs=request.logprobs)  # fmt: skip
    if request.echo and request.logprobs is not None and sampling.prompt_logprobs is None:
        sampling = replace(sampling, prompt_logprobs=request.logprobs)
    show = Show(
        continues=True,
        special=request.skip_special_tokens is False,
        token_ids=bool(request.return_token_ids),
        rounds=bool(request.return_rounds),
        ids_as_tokens=bool(request.return_tokens_as_token_ids),
        echo=bool(request.echo),
        prompt_logprobs=request.prompt_logprobs is not None,
        nothing_new=nothing_new,
    )
    return _job(request, served, text_prompts(request, served), sampling, show, None)


def samplings(job: Job) -> Iterator[tuple[tuple[int, ...], Sampling, int]]:
    """(prompt, sampling, coins' seed) of every answer, in the order of the choices."""
    for prompt in job.prompts:
        for i in range(job.n):
            seed = job.sampling.seed
            if seed is None:
                yield prompt, job.sampling, secrets.randbits(63)
            else:
                own = derived_seed(seed, i)
                yield prompt, replace(job.sampling, seed=own), own


def derived_seed(seed: int, index: int) -> int:
    """The seed of one of n answers: the first has the request's own, the others follow from it."""
    if index == 0:
        return seed
    data = f"outpace answer {index} of {seed}".encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _sampling(
    request: GenerationRequest, *, max_tokens: int | None, logprobs: int | None
) -> Sampling:
    """A null is the default, as in OpenAI's API."""
    stop = () if request.stop is None else request.stop
    seed = request.seed
    return Sampling(
        temperature=1.0 if request.temperature is None else request.temperature,
        top_k=0 if request.top_k in (None, -1) else request.top_k or 0,  # vLLM's -1 is all
        top_p=1.0 if request.top_p is None else request.top_p,
        min_p=request.min_p or 0.0,
        repetition_penalty=(
            1.0 if request.repetition_penalty is None else request.repetition_penalty
        ),
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        logit_bias=_biases(request.logit_bias or {}),
        min_tokens=request.min_tokens or 0,
        max_tokens=max_tokens,
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=frozenset(request.stop_token_ids or ()),
        ignore_eos=bool(request.ignore_eos),
        seed=None if seed is None else seed % _SEEDS,  # OpenAI's seeds may be negative
        logprobs=logprobs,
        prompt_logprobs=request.prompt_logprobs,
    )


def _biases(asked: dict[str, float]) -> dict[int, float]:
    biases: dict[int, float] = {}
    for key, value in asked.items():
        if not (key.isascii() and key.isdigit() and len(key) < 12):
            raise bad(
                f"logit_bias has the key {key[:40]!r}; keys are token ids in decimal digits",
                param="logit_bias",
            )
        biases[int(key)] = value
    return biases


def _job(
    request: GenerationRequest,
    served: Served,
    prompts: list[list[int]],
    sampling: Sampling,
    show: Show,
    tools: ToolFormat | None,
) -> Job:
    served.check_model(request.model)
    options = request.stream_options
    stream = bool(request.stream)
    if options is not None and not stream:
        raise bad("stream_options needs stream: true beside it", param="stream_options")
    if stream and request.prompt_logprobs is not None:
        raise bad("prompt_logprobs come with whole responses only; leave out stream: true",
                  param="prompt_logprobs")  # fmt: skip
    job = Job(
        prompts=tuple(tuple(prompt) for prompt in prompts),
        sampling=sampling,
        n=request.n or 1,
        limits=parse_speculation(request.speculation or "auto"),
        make_mask=grammar_for(request, served, tools),
        show=show,
        metrics=request.speculation_metrics or served.settings.metrics,
        stream=stream,
        usage=stream and options is not None and options.include_usage,
        running_usage=stream and options is not None and options.continuous_usage_stats,
        piece_s=served.settings.piece_s,
        tools=tools,
    )
    _check_bounds(job, served)
    return job


def _check_bounds(job: Job, served: Served) -> None:
    bounds = served.settings.bounds
    if job.n_choices > bounds.choices:
        raise bad(
            f"{len(job.prompts)} prompts times n = {job.n} are {job.n_choices} answers; at most "
            f"{bounds.choices} are given to one request",
            param="n",
            code="too_many_choices",
        )
    for name in ("logprobs", "prompt_logprobs"):
        asked = getattr(job.sampling, name)
        if asked is not None and asked > bounds.top_logprobs:
            raise bad(
                f"{name} asks for {asked} alternatives per token; at most {bounds.top_logprobs}",
                param=name,
            )
    sampling = job.sampling
    for name, found, most in (
        ("logit_bias", len(sampling.logit_bias), bounds.biases),
        ("stop_token_ids", len(sampling.stop_token_ids), bounds.biases),
        ("stop", sum(len(word) for word in sampling.stop), bounds.stop_chars),
    ):
        if found > most:
            what = "characters" if name == "stop" else "entries"
            raise bad(f"{name} has {found} {what}; at most {most} are taken", param=name)
    for prompt in job.prompts:
        check_prompt(prompt, served)
