"""Exactness: the law walked path by path, texts, sampled laws, the endpoint's contract."""

from outpace.evaluate.judge.evidence import Evidence
from outpace.evaluate.judge.verified import Verified
from outpace.evaluate.judge.words import nothing, too_early, units
from outpace.evaluate.plan.criteria import Contract, ExactLaw, SameLaw, SameText
from outpace.evaluate.verdict import Outcome, Status
from outpace.stats import holm

_STATUS: dict[str, Status] = {"pass": "PASS", "fail": "FAIL", "unsupported": "INCONCLUSIVE"}


def exactness(
    evidence: Evidence, c: ExactLaw | SameText | SameLaw | Contract
) -> Outcome:  # fmt: skip
    """One of the four, on what `verify` found."""
    done = evidence.done("verify")
    if done is None:
        return too_early(c.id, _rule(c), "verify")
    line, statement = done
    verified = Verified.of(statement)
    match c:
        case ExactLaw():
            return _exact_law(c, verified, line)
        case SameText():
            return _same_text(c, verified, line)
        case SameLaw():
            return _same_law(c, verified, line)
        case Contract():
            return _contract(c, verified, line)


def _rule(c: ExactLaw | SameText | SameLaw | Contract) -> str:
    match c:
        case ExactLaw():
            return f"on every path of the real code the law is the model's, to {c.tol:g}"
        case SameText():
            ties = "" if c.max_ties is None else f" and at most {c.max_ties} ties"
            return (
                f"at most {units(c.max_mismatches, 'text')} of {c.arm} part from the baseline's "
                f"by more than numerics explain{ties}; compared over {c.min_tokens} tokens"
            )
        case SameLaw():
            return (
                f"no test at level {c.alpha:g} tells the sampled texts of {c.arm} from the "
                f"baseline's law, and a total variation of {c.max_tv:g} would have been seen"
            )
        case Contract():
            allowed = f", but for {', '.join(c.allow)}" if c.allow else ""
            return f"{c.arm} keeps every promise of the endpoint contract{allowed}"


def _exact_law(c: ExactLaw, verified: Verified, line: int) -> Outcome:
    walk = verified.exact_law
    if walk is None or not walk.paths:
        return nothing(c, _rule(c), "no path was walked")
    return Outcome(
        id=c.id, status="PASS" if walk.worst <= c.tol else "FAIL", rule=_rule(c),
        found=f"largest error {walk.worst:.2g} on {walk.paths:,} paths",
        estimate=walk.worst, n=walk.paths, statements=(line,),
    )  # fmt: skip


def _same_text(c: SameText, verified: Verified, line: int) -> Outcome:
    """A prompt on which the baseline parts from itself decides nothing, and is counted apart."""
    texts = [t for t in verified.texts if t.arm == c.arm]
    if not texts:
        return nothing(c, _rule(c), "no text was compared")
    decided = [t for t in texts if t.control in (None, "identical")]
    wrong = [t for t in decided if t.verdict == "mismatch"]
    unsure = [t for t in texts if t not in decided and t.verdict == "mismatch"]
    untold = [t for t in texts if t.verdict == "unchecked"]
    ties = [t for t in texts if t.verdict == "tie"]
    long = [t for t in texts if t.n_tokens >= c.min_tokens]
    status: Status = "PASS"
    if len(wrong) > c.max_mismatches or (c.max_ties is not None and len(ties) > c.max_ties):
        status = "FAIL"
    elif len(wrong) + len(unsure) + len(untold) > c.max_mismatches or not long:
        status = "INCONCLUSIVE"
    same = sum(t.verdict == "identical" for t in texts)
    found = f"{same} of {units(len(texts), 'text')} identical, {len(wrong)} mismatched"
    if wrong:
        first = wrong[0]
        found += f" (first: {first.prompt}, token {first.at}, margin {first.margin or 0:.2g})"
    found += f", {len(ties)} tied" if ties else ""
    if unsure:
        found += f", {len(unsure)} where the baseline parts from itself"
    if untold:
        found += f", {len(untold)} that part where no log-probability tells why"
    longest = max(t.n_tokens for t in texts)
    found += f"; {len(long)} over {c.min_tokens} tokens, the longest {longest}"
    return Outcome(
        id=c.id, status=status, rule=_rule(c), found=found, estimate=float(len(wrong)),
        n=len(texts), statements=(line,),
    )  # fmt: skip


def _same_law(c: SameLaw, verified: Verified, line: int) -> Outcome:
    tests = [t for t in verified.laws.get(c.arm, ()) if t.p_value is not None]
    if not tests:
        return nothing(c, _rule(c), "no sampled text was tested")
    adjusted = holm([t.p_value or 0.0 for t in tests])
    worst = min(range(len(tests)), key=lambda i: adjusted[i])
    blind = min(t.detectable_tv if t.detectable_tv is not None else 1.0 for t in tests)
    status: Status = "PASS" if blind <= c.max_tv else "INCONCLUSIVE"
    if adjusted[worst] < c.alpha:
        status = "FAIL"
    t = tests[worst]
    found = (
        f"smallest p {adjusted[worst]:.2g} of {units(len(tests), 'test')} ({t.test}"
        f"{', ' + t.prompt if t.prompt else ''}); a total variation of {blind:.2g} would have shown"
    )
    return Outcome(
        id=c.id, status=status, rule=_rule(c), found=found, estimate=adjusted[worst],
        n=sum(t.n for t in tests), statements=(line,),
    )  # fmt: skip


def _contract(c: Contract, verified: Verified, line: int) -> Outcome:
    checks = verified.contract.get(c.arm, ())
    if not checks:
        return nothing(c, _rule(c), "no check was made")
    broken = [k for k in checks if k.verdict == "fail" and k.name not in c.allow]
    unknown = [k for k in checks if k.verdict == "unsupported" and k.name not in c.allow]
    status: Status = "FAIL" if broken else "INCONCLUSIVE" if unknown else "PASS"
    kept = sum(k.verdict == "pass" for k in checks)
    found = f"{kept} of {units(len(checks), 'check')} passed"
    for words, group in (("broken", broken), ("could not be made", unknown)):
        found += f"; {words}: {', '.join(k.name for k in group)}" if group else ""
    return Outcome(
        id=c.id, status=status, rule=_rule(c), found=found, estimate=float(len(broken)),
        n=len(checks), statements=(line,),
        parts=tuple(
            Outcome(
                id=k.name,
                status=_STATUS[k.verdict],
                rule=k.name, found=k.found or k.verdict,
            )
            for k in checks
        ),
    )  # fmt: skip
