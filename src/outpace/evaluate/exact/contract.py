"""The contract checks of `outpace.endpoint` on an arm: what any client may rely on."""

from outpace.endpoint.client import Endpoint
from outpace.endpoint.run import chosen, findings
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.exact.texts import Tick
from outpace.evaluate.judge.verified import ContractCheck


def check(arm: RemoteArm, *, key: str | None, tick: Tick) -> list[ContractCheck]:
    """Every check and what was found; on a quiet endpoint."""
    endpoint = Endpoint(arm.root, api_key=key, timeout_s=arm.arm.timeout_s)
    try:
        found: list[ContractCheck] = []
        for finding in findings(endpoint, chosen()):
            found.append(
                ContractCheck(name=finding.name, verdict=finding.verdict, found=finding.found)
            )
            tick(0, f"contract: {finding.name}")
        return found
    finally:
        endpoint.close()
