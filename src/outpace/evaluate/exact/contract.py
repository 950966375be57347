"""The contract checks of `outpace.endpoint` on an arm: what any client may rely on."""

from contextlib import closing

from outpace.endpoint.client import Endpoint
from outpace.endpoint.run import chosen, findings
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.arms.served.managed import ManagedArm
from outpace.evaluate.exact.texts import Tick
from outpace.evaluate.judge.verified import ContractCheck

# A server that checks kill is started again so often; then what is left fails.
MOST_RESTARTS = 3


def check(arm: RemoteArm, *, key: str | None, tick: Tick) -> list[ContractCheck]:
    """Every check and what was found; on a quiet endpoint."""
    found: list[ContractCheck] = []
    restarts = 0
    for planned in chosen():
        endpoint = Endpoint(arm.root, api_key=key, timeout_s=arm.arm.timeout_s)
        with closing(endpoint):
            (finding,) = findings(endpoint, [planned])
        tick(0, f"contract: {finding.name}")
        words = finding.found
        if isinstance(arm, ManagedArm) and arm.dead and restarts < MOST_RESTARTS:
            words += " (it killed the server, which was started again)"
            restarts += 1
            arm.fresh()
        found.append(ContractCheck(name=finding.name, verdict=finding.verdict, found=words))
    return found
