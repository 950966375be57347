"""The application: routes, errors in one shape, and nothing of the process it runs in.

A page can be mounted at `/`, which changes one line here.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from outpace import __version__
from outpace.api import Model
from outpace.engine.service import Service
from outpace.errors import OutpaceError
from outpace.server.auth import Doorkeeper
from outpace.server.limits import Quotas
from outpace.server.log import AccessLog
from outpace.server.metrics.history import History
from outpace.server.metrics.meters import Meters
from outpace.server.page.routes import page_routes
from outpace.server.routes.feed import feed_routes
from outpace.server.routes.generate import generate_routes
from outpace.server.routes.health import health_routes
from outpace.server.routes.tokens import token_routes
from outpace.server.served import Served
from outpace.server.settings import Bounds, Settings
from outpace.server.wire.problems import Problem, problem_of
from outpace.server.wire.requests import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)
from outpace.text.grammar.compile import GrammarLimits, Grammars

if TYPE_CHECKING:
    from outpace.server.telemetry.trace import Telemetry

_BODIES: Final[Mapping[str, type[BaseModel]]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}


def create_app(
    model: Model,
    service: Service,
    settings: Settings,
    *,
    telemetry: "Telemetry | None" = None,
) -> FastAPI:
    """The server of one model.

    service: runs the model's engine; its owner shuts it down. telemetry: traces requests.
    """
    meters = Meters(time.perf_counter)
    history = History(meters, service.engine.control, time.perf_counter)
    # Before the service, which wakes whoever waits: who has an answer finds it counted.
    service.engine.listeners[:0] = [history.listen, meters.listen]
    served = Served(
        model=model,
        service=service,
        settings=settings,
        meters=meters,
        history=history,
        door=Doorkeeper(settings.api_keys),
        quotas=Quotas(settings.bounds, time.monotonic),
        grammars=_grammars(model, settings.bounds),
        created=int(time.time()),
    )
    # No pages of documentation: they would load scripts from elsewhere.
    app = FastAPI(title="outpace", version=__version__, docs_url=None, redoc_url=None)
    app.state.served = served
    for routes in (generate_routes, token_routes, health_routes, feed_routes, page_routes):
        app.include_router(routes(served))
    app.add_exception_handler(Problem, _refuse)
    app.add_exception_handler(OutpaceError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_middleware(AccessLog, answered=meters.answered)
    if telemetry is not None:
        telemetry.watch(app, service, model.name)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]
    return app


def _grammars(model: Model, bounds: Bounds) -> Grammars:
    limits = GrammarLimits(
        source_bytes=bounds.grammar_bytes,
        compile_s=bounds.grammar_s,
        remembered=bounds.grammars,
    )
    traits = model.runtime.traits
    return Grammars(
        model.tokenizer, vocab_size=traits.vocab_size, eos_ids=traits.eos_ids, limits=limits
    )


async def _refuse(_request: Request, error: Exception) -> Response:
    return problem_of(error).response()


async def _refuse_http(request: Request, error: Exception) -> Response:
    """The framework's own: no such path, no such method."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    path = request.url.path
    message = {
        404: f"there is nothing at {path}; /openapi.json lists what there is",
        405: f"{path} does not take {request.method}",
    }.get(status, str(getattr(error, "detail", error)))
    headers = dict(getattr(error, "headers", None) or {})
    code = {404: "not_found", 405: "method_not_allowed"}.get(status)
    return Problem(status=status, message=message, code=code, headers=headers).response()


def _schema(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with the bodies that the routes read themselves."""
    if app.openapi_schema:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    ref = "#/components/schemas/{model}"
    shapes: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (shape, "validation") for shape in _BODIES.values()
    ]
    _, bodies = models_json_schema(shapes, ref_template=ref)
    schema.setdefault("components", {}).setdefault("schemas", {}).update(bodies["$defs"])
    for path, shape in _BODIES.items():
        schema["paths"][path]["post"]["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": ref.format(model=shape.__name__)}}},
        }
    app.openapi_schema = schema
    return schema
