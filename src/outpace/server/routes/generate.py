"""`/v1/chat/completions` and `/v1/completions`: from a body to an answer, whole or streamed.

However a request ends (answered, refused, its client gone), its streams are closed, its place
among the caller's requests is given back and its answers are counted.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from collections.abc import Sequence as Seq
from contextlib import aclosing
from typing import Final, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from outpace.errors import OutpaceError
from outpace.server.access import admit
from outpace.server.answer.chat import ChatForm
from outpace.server.answer.choice import Answer, end, start
from outpace.server.answer.completion import CompletionForm
from outpace.server.answer.logprobs import Speller
from outpace.server.answer.writer import Writer
from outpace.server.ask.grammar import wants_grammar
from outpace.server.ask.job import Job
from outpace.server.ask.translate import chat_job, completion_job
from outpace.server.limits import Lease
from outpace.server.log import LOG, note
from outpace.server.served import Served
from outpace.server.sse import DONE, EventStream, event, gone
from outpace.server.wire.body import parse, read_bytes
from outpace.server.wire.problems import problem_of
from outpace.server.wire.requests import ChatRequest, CompletionRequest, GenerationRequest
from outpace.server.wire.responses import Response as Document

T = TypeVar("T", bound=GenerationRequest)
# Where a request's scope holds its answers, for whoever watches requests from outside.
ANSWERS: Final = "outpace.answers"
# Longer bodies are tokenised in a thread, so that others are not kept waiting.
_LONG_BODY_BYTES: Final = 32_768


def generate_routes(served: Served) -> APIRouter:
    """Both paths."""
    router = APIRouter()

    @router.post("/v1/chat/completions", response_model=None)
    async def chat(request: Request) -> Response:
        """Answer a conversation."""
        return await _respond(request, served, ChatRequest, chat_job)

    @router.post("/v1/completions", response_model=None)
    async def completions(request: Request) -> Response:
        """Continue a text, or several."""
        return await _respond(request, served, CompletionRequest, completion_job)

    return router


async def _respond(
    request: Request, served: Served, shape: type[T], make_job: Callable[[T, Served], Job]
) -> Response:
    lease = admit(request, served)
    answers: list[Answer] = []
    try:
        data = await read_bytes(request, served.settings)
        asked = parse(data, shape, served.settings)
        if len(data) > _LONG_BODY_BYTES or wants_grammar(asked):
            job = await asyncio.to_thread(make_job, asked, served)
        else:
            job = make_job(asked, served)
        if served.settings.log_prompts:
            note(request, body=data.decode("utf-8", "replace"))
        request.scope[ANSWERS] = answers = start(job, served)
        writer = _writer(job, served, request)
        if job.stream:
            return _streamed(request, served, writer, answers, lease)
        response = await _whole(request, writer, answers)
    except BaseException:
        _over(request, served, answers, lease)
        raise
    _over(request, served, answers, lease)
    return response


def _writer(job: Job, served: Served, request: Request) -> Writer:
    speller = Speller(served.model.tokenizer, job.show)
    chat = request.url.path.endswith("/chat/completions")
    tokenizer = served.model.tokenizer
    return Writer(
        job,
        ChatForm(job, speller) if chat else CompletionForm(job, speller, tokenizer),
        model=served.model.name,
        response_id=f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(16)}",
        created=int(time.time()),
    )


async def _whole(request: Request, writer: Writer, answers: Seq[Answer]) -> Response:
    """The response, or nothing at all once the client has left."""
    work = asyncio.create_task(writer.whole(answers))
    watch = asyncio.create_task(gone(request.receive))
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            return Response(status_code=499)  # nobody reads it; the log does
        return Response(_json(work.result()), media_type="application/json")
    finally:
        for task in (work, watch):
            task.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)


def _streamed(
    request: Request, served: Served, writer: Writer, answers: list[Answer], lease: Lease
) -> EventStream:
    return EventStream(
        _events(writer, answers),
        send_s=served.settings.bounds.send_s,
        on_end=lambda: _over(request, served, answers, lease),
    )


async def _events(writer: Writer, answers: Seq[Answer]) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(writer.chunks(answers)) as chunks:
            async for chunk in chunks:
                yield event(_json(chunk))
    except OutpaceError as error:
        # The status is sent; an event is the only way left to say it. Never silence.
        yield event(to_json(problem_of(error).body()))
    except Exception as error:
        LOG.exception("a bug in a stream: %s", type(error).__name__)
        yield event(to_json(problem_of(error).body()))
    yield DONE


def _over(request: Request, served: Served, answers: list[Answer], lease: Lease) -> None:
    lease.release()
    if answers:
        note(
            request,
            prompt_tokens=answers[0].job.n_prompt_tokens,
            completion_tokens=sum(answer.n_shown for answer in answers),
            finish=[answer.finish or "abort" for answer in answers],
            drafted=sum(answer.stream.meter.drafted for answer in answers),
            kept=sum(answer.stream.meter.kept for answer in answers),
        )
    end(answers, served)


def _json(document: Document) -> bytes:
    return document.model_dump_json(exclude_unset=True).encode()
