"""All arms of a plan, open together, and closed again whatever happens."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from outpace.api import Model
from outpace.errors import ConfigError
from outpace.evaluate.arms.arm import OpenArm
from outpace.evaluate.arms.local import LocalArm
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.arms.served.managed import ManagedArm, ManagedServer, environment_key
from outpace.evaluate.plan.arms import Arm, EndpointArm, InProcessArm, ServeArm, Target

# Opens the plan's target for the arms' drafters (a head needs hidden states of it).
OpenModel = Callable[[Target, tuple[str, ...]], AbstractContextManager[Model]]
# What a managed engine is told to load for a reference: a path for those that know no names.
Locate = Callable[[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the shell provides. environ: for keys. logs: where servers' output goes."""

    open_model: OpenModel
    environ: Mapping[str, str]
    logs: Path
    locate: Locate = lambda _engine, ref: ref


@contextmanager
def open_arms(
    arms: Mapping[str, Arm], target: Target | None, tools: Tools
) -> Iterator[dict[str, OpenArm]]:
    """Open every arm.

    Raises:
        ConfigError: one cannot be opened; those before it are closed again.
    """
    with ExitStack() as stack:
        # What needs no loading first: a wrong key is known before a model is in memory.
        keys = {
            name: environment_key(arm.api_key_env, tools.environ)
            for name, arm in arms.items()
            if isinstance(arm, EndpointArm)
        }
        opened: dict[str, OpenArm] = {}
        for name, arm in arms.items():
            if isinstance(arm, EndpointArm):
                remote = RemoteArm(name, arm, key=keys[name])
                stack.callback(remote.close)
                opened[name] = remote
        for name, arm in arms.items():
            if isinstance(arm, ServeArm):
                opened[name] = _managed(name, arm, target, tools, stack)
        local = {name: arm for name, arm in arms.items() if isinstance(arm, InProcessArm)}
        if local:
            if target is None:
                raise ConfigError("in-process arms need a model; write target: {model: NAME}")
            drafters = tuple(arm.drafter for arm in local.values())
            model = stack.enter_context(tools.open_model(target, drafters))
            for name, arm in local.items():
                made = LocalArm(name, arm, model)
                stack.callback(made.close)
                opened[name] = made
        yield {name: opened[name] for name in arms}


def _managed(
    name: str, arm: ServeArm, target: Target | None, tools: Tools, stack: ExitStack
) -> ManagedArm:
    managed = arm.serve
    ref = managed.model or (target.model if target is not None else None)
    model = tools.locate(managed.engine, ref) if ref is not None else None
    server = ManagedServer(name, managed, model=model, log=tools.logs / f"{name}.log")
    try:
        made = ManagedArm(server, model=model or managed.served_name or "")
    except BaseException:
        server.stop()
        raise
    stack.callback(made.close)
    return made
