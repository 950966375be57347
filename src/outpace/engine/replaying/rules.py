"""Stage 3 again, from a line's numbers alone: the four rules, walked over recorded p, q and coins.

The formulas are `core.accept`'s own (`ratio`, `scaled_ratio`, `share`); what they are applied to
comes from a `Ledger`.
"""

from outpace.core.accept import ratio, scaled_ratio, share
from outpace.core.draft import ROOT
from outpace.engine.replaying.ledger import Ledger
from outpace.engine.tracing import stage


def walk(rule: str, ledger: Ledger) -> tuple[int, ...]:
    """The path the rule keeps, by the recorded numbers."""
    match rule:
        case "match":
            return tuple(_match(ledger))
        case "token":
            return tuple(_token(ledger))
        case "block":
            return tuple(_block(ledger))
        case _:
            return tuple(_traversal(ledger, ROOT, 1.0, 1.0, 1.0) or ())


def _match(ledger: Ledger) -> list[int]:
    node, path = ROOT, list[int]()
    while children := ledger.children(node):
        y = ledger.row(node + 1).choice
        kept = next((c for c in children if ledger.tokens[c] == y), None)
        for child in children:
            hit = float(ledger.tokens[child] == y)
            expected = stage.Judged(
                node=child, token=ledger.tokens[child], p=hit, q=1.0, weight=1.0, mass=0.0,
                a=float(child == kept), u=None, kept=child == kept,
            )  # fmt: skip
            ledger.judge(child, expected)
        if kept is None:
            break
        path.append(kept)
        node = kept
    return path


def _token(ledger: Ledger) -> list[int]:
    node, path = ROOT, list[int]()
    while True:
        for child in ledger.children(node):
            p, q = ledger.p(node + 1, ledger.tokens[child]), ledger.q(child)
            if ledger.weigh(child, p=p, q=q, a=ratio(p, q)):
                path.append(child)
                break
            ledger.take(node + 1, child, 1.0)
        else:
            return path
        node = path[-1]


def _block(ledger: Ledger) -> list[int]:
    chain: list[tuple[int, float, float, float]] = []
    node, weight = ROOT, 1.0
    masses: list[float] = []
    while weight > 0 and (children := ledger.children(node)):
        p, q = ledger.p(node + 1, ledger.tokens[children[0]]), ledger.q(children[0])
        masses.append(ledger.take(node + 1, children[0], weight))
        node, weight = children[0], scaled_ratio(weight, p, q)
        chain.append((node, p, q, weight))
    kept = 0
    for i, (node, p, q, weight) in enumerate(chain, start=1):
        mass = masses[i] if i < len(chain) else 0.0
        a = share(mass, weight) if i < len(chain) else weight
        if ledger.weigh(node, p=p, q=q, a=a, weight=weight, mass=mass):
            kept = i
    return [node for node, *_ in chain[:kept]]


def _traversal(
    ledger: Ledger, node: int, weight: float, p: float, q: float
) -> list[int] | None:  # fmt: skip
    if weight == 0:  # lost unseen, with all that follows it
        ledger.weigh(node, p=p, q=q, a=0.0, weight=0.0)
        return None
    a = weight
    for child in ledger.children(node):
        px, qx = ledger.p(node + 1, ledger.tokens[child]), ledger.q(child)
        below = _traversal(ledger, child, scaled_ratio(a, px, qx), px, qx)
        if below is not None:
            return [child, *below]
        a = share(ledger.take(node + 1, child, a), a)
    if node == ROOT:
        return []
    return [] if ledger.weigh(node, p=p, q=q, a=a, weight=weight) else None
