"""Running the checks, one after the other, each on a quiet endpoint."""

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from importlib import import_module

from outpace.endpoint.client import Endpoint
from outpace.endpoint.verdict import Check, Failed, Finding, Unsupported, Verdict
from outpace.errors import ConfigError

# Subjects, in the order in which they are tried; each module lists its CHECKS.
SUBJECTS = ("laws", "ends", "streams", "logprobs", "refusals", "counters", "company")
_SENT_SHOWN = 2


def all_checks() -> list[Check]:
    """Every check there is."""
    found: list[Check] = []
    for subject in SUBJECTS:
        found += import_module(f"outpace.endpoint.checks.{subject}").CHECKS
    return found


def chosen(only: Seq[str] = (), skip: Seq[str] = ()) -> list[Check]:
    """Those whose names contain one of `only` (all without any) and none of `skip`.

    Raises:
        ConfigError: nothing does.
    """
    checks = [
        check
        for check in all_checks()
        if (not only or any(text in check.name for text in only))
        and not any(text in check.name for text in skip)
    ]
    if not checks:
        names = ", ".join(check.name for check in all_checks())
        raise ConfigError(f"no check is left of those asked for; there are {names}")
    return checks


def findings(
    endpoint: Endpoint, checks: Seq[Check], *, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Finding]:
    """Each check's finding, as it is made."""
    for check in checks:
        yield finding(endpoint, check, clock=clock)


def finding(
    endpoint: Endpoint, check: Check, *, clock: Callable[[], float] = time.perf_counter
) -> Finding:
    """One check. An endpoint that dies fails it, and those that follow."""
    endpoint.sent.clear()
    began_s = clock()
    verdict: Verdict
    try:
        verdict, found = "pass", check.run(endpoint)
    except Failed as error:
        verdict, found = "fail", str(error)
    except Unsupported as error:
        verdict, found = "unsupported", str(error)
    except ConfigError as error:
        verdict, found = "fail", f"it stopped answering: {error}"
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        # An answer of a shape no client expects.
        verdict, found = "fail", f"an unreadable answer: {type(error).__name__}: {error}"
    last = endpoint.sent[-_SENT_SHOWN:]
    more = len(endpoint.sent) - len(last)
    return Finding(
        name=check.name,
        promise=check.promise,
        verdict=verdict,
        sent="\n".join([*([f"{more} requests, then"] if more else []), *last]),
        found=found,
        seconds=clock() - began_s,
    )
