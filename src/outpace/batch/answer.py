"""The answers of one request as OpenAI's response body."""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.batch.body import Job
from outpace.core.score import TokenLogprobs
from outpace.core.sequence import Sequence
from outpace.text.stream import TextStream
from outpace.text.tokenizer import Tokenizer

_REASONS = {
    "eos": "stop", "stop_token": "stop", "stop_string": "stop",
    "length": "length", "context": "length",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What an answer needs besides the sequences."""

    tokenizer: Tokenizer
    model: str
    created: int
    id: str


def response_body(job: Job, sequences: Seq[Sequence], context: Context) -> dict[str, object]:
    """The body of a finished request: a choice per sequence, prompts in order, and the usage."""
    chat = job.kind == "chat"
    completion = sum(len(s.output) for s in sequences)
    # A prompt counts once, however many answers it got.
    prompt = sum(s.n_prompt for s in sequences[:: job.n])
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{context.id}",
        "object": "chat.completion" if chat else "text_completion",
        "created": context.created,
        "model": context.model,
        "choices": [_choice(job, i, s, context.tokenizer) for i, s in enumerate(sequences)],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def _choice(job: Job, index: int, seq: Sequence, tokenizer: Tokenizer) -> dict[str, object]:
    stream = TextStream(tokenizer, seq.sampling.stop)
    text = stream.push(seq.output) + stream.flush()
    choice: dict[str, object] = {
        "index": index,
        "finish_reason": _REASONS.get(seq.finish or "", "stop"),
        "logprobs": None,
    }
    wants = seq.sampling.logprobs is not None
    if job.kind == "chat":
        choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        if wants:
            content = [_chat_token(report, tokenizer) for report in seq.logprobs]
            choice["logprobs"] = {"content": content, "refusal": None}
    else:
        choice["text"] = text
        if wants:
            choice["logprobs"] = _text_logprobs(seq.logprobs, tokenizer)
    if seq.sampling.prompt_logprobs is not None:
        known = [_chat_token(report, tokenizer) for report in seq.prompt_logprobs]
        choice["prompt_logprobs"] = [None, *known]  # nothing comes before the first token
    return choice


def _chat_token(report: TokenLogprobs, tokenizer: Tokenizer) -> dict[str, object]:
    tops = [_spelled(token, logprob, tokenizer) for token, logprob in report.top]
    return {**_spelled(report.token, report.logprob, tokenizer), "top_logprobs": tops}


def _spelled(token: int, logprob: float, tokenizer: Tokenizer) -> dict[str, object]:
    spelling = tokenizer.token_bytes(token)
    return {
        "token": spelling.decode("utf-8", "replace"),
        "logprob": max(logprob, -9999.0),  # JSON has no -inf
        "bytes": list(spelling),
    }


def _text_logprobs(reports: Seq[TokenLogprobs], tokenizer: Tokenizer) -> dict[str, object]:
    words = [tokenizer.token_bytes(r.token).decode("utf-8", "replace") for r in reports]
    offsets, at = [], 0
    for word in words:
        offsets.append(at)
        at += len(word)
    tops = [
        {
            tokenizer.token_bytes(token).decode("utf-8", "replace"): max(logprob, -9999.0)
            for token, logprob in report.top
        }
        for report in reports
    ]
    return {
        "tokens": words,
        "token_logprobs": [max(r.logprob, -9999.0) for r in reports],
        "top_logprobs": tops,
        "text_offset": offsets,
    }
