"""The contract checks of `outpace.endpoint` on an arm: what any client may rely on."""

from dataclasses import asdict

from pydantic import JsonValue

from outpace.endpoint.client import Endpoint
from outpace.endpoint.run import chosen, findings
from outpace.evaluate.arms.remote import RemoteArm
from outpace.evaluate.exact.texts import Tick


def check(arm: RemoteArm, *, key: str | None, tick: Tick) -> list[dict[str, JsonValue]]:
    """Every check's name, verdict and what was found; on a quiet endpoint."""
    endpoint = Endpoint(arm.root, api_key=key, timeout_s=arm.arm.timeout_s)
    try:
        found: list[dict[str, JsonValue]] = []
        for finding in findings(endpoint, chosen()):
            kept = {k: v for k, v in asdict(finding).items() if k in ("name", "verdict", "found")}
            found.append(kept)
            tick(0, f"contract: {finding.name}")
        return found
    finally:
        endpoint.close()
