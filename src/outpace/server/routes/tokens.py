"""`/v1/models`, `/tokenize` and `/detokenize`: what the model is, and how it cuts text."""

from fastapi import APIRouter, Request

from outpace.server.access import identify
from outpace.server.ask.prompts import chat_prompt, encoded
from outpace.server.served import Served
from outpace.server.wire.body import parse, read_bytes
from outpace.server.wire.problems import Problem, bad
from outpace.server.wire.requests import DetokenizeRequest, TokenizeRequest


def token_routes(served: Served) -> APIRouter:
    """All of them; each asks who is calling."""
    router = APIRouter()

    @router.get("/v1/models", response_model=None)
    async def models(request: Request) -> dict[str, object]:
        """The one model there is."""
        identify(request, served)
        return {"object": "list", "data": [_card(served)]}

    @router.get("/v1/models/{name:path}", response_model=None)
    async def one_model(request: Request, name: str) -> dict[str, object]:
        """The same, by name."""
        identify(request, served)
        served.check_model(name)
        return _card(served)

    @router.post("/tokenize", response_model=None)
    async def tokenize(request: Request) -> dict[str, object]:
        """A text's or a conversation's token ids."""
        identify(request, served)
        data = await read_bytes(request, served.settings)
        return _tokenized(parse(data, TokenizeRequest, served.settings), served)

    @router.post("/detokenize", response_model=None)
    async def detokenize(request: Request) -> dict[str, object]:
        """The text of token ids, control tokens spelled out."""
        identify(request, served)
        data = await read_bytes(request, served.settings)
        return _detokenized(parse(data, DetokenizeRequest, served.settings), served)

    return router


def _card(served: Served) -> dict[str, object]:
    name = served.model.name
    return {
        "id": name,
        "object": "model",
        "created": served.created,
        "owned_by": "outpace",
        "root": name,
        "parent": None,
        "max_model_len": served.model.runtime.traits.context_tokens,
    }


def _tokenized(asked: TokenizeRequest, served: Served) -> dict[str, object]:
    served.check_model(asked.model)
    ids = _ids(asked, served)
    found: dict[str, object] = {
        "count": len(ids),
        "max_model_len": served.model.runtime.traits.context_tokens,
        "tokens": ids,
    }
    if asked.return_token_strs:
        found["token_strs"] = [served.model.tokenizer.token(index) or "" for index in ids]
    return found


def _detokenized(asked: DetokenizeRequest, served: Served) -> dict[str, object]:
    served.check_model(asked.model)
    vocab_size = served.model.runtime.traits.vocab_size
    wrong = [t for t in asked.tokens if t >= vocab_size]
    if wrong:
        raise bad(
            f"tokens has {wrong[:5]}; the model's ids are 0 to {vocab_size - 1}", param="tokens"
        )
    return {"prompt": served.model.tokenizer.decode(asked.tokens, skip_special=False)}


def _ids(asked: TokenizeRequest, served: Served) -> list[int]:
    if (asked.prompt is None) == (asked.messages is None):
        raise _either()
    if asked.prompt is not None:
        bos = asked.add_special_tokens is not False
        return encoded(asked.prompt, served, bos=bos)
    return chat_prompt(asked, served, with_tools=bool(asked.tools))


def _either() -> Problem:
    return bad("send either prompt (a text) or messages (a conversation)", param="prompt")
