"""Which part each item belongs to: drawn once, by hash, and kept as the file grows.

Every item, in the order of its file, is thrown by sha256(salt, stratum, id) into dev, test or
confirm, with chances in proportion to what each part lacks of its share of the stratum, were it
_SLACK larger than so far (an urn in the manner of Wei 1977). So small strata are in every part, no
part gets ahead of its share by two items, and yet no place in a file belongs to a part: without
the slack every fifth item would be a test item half as often as the others. Items alike, or of one
conversation, are not thrown but follow the first of them.

An item's part depends on the items before it and on nothing after: rows added at the end of a
file move none of those before. Filters and limits come after the split and move none either.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from outpace.evaluate.data.alike import alike
from outpace.evaluate.data.items import PARTS, Item, Part
from outpace.evaluate.plan.data import Split

_SLACK = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """parts: item id -> part; None = in none, since it is alike items of several. groups: item id
    -> id of the first item it follows, itself where it follows none."""

    parts: Mapping[str, Part | None]
    groups: Mapping[str, str]

    @property
    def left_out(self) -> tuple[str, ...]:
        """Ids in no part."""
        return tuple(name for name, part in self.parts.items() if part is None)


def draw(items: Seq[Item], split: Split, strata: Seq[str]) -> Drawn:
    """Draw the parts. strata: the value of `split.stratify` for each item."""
    shares: dict[Part, float] = {"dev": split.dev, "test": split.test, "confirm": split.confirm}
    placed: defaultdict[str, Counter[Part]] = defaultdict(Counter)
    parts: dict[str, Part | None] = {}
    groups: dict[str, str] = {}
    texts = ["\n".join(_asked(item)) for item in items]
    begun: dict[str, str] = {}  # conversation -> its first item
    order = {item.id: at for at, item in enumerate(items)}
    for item, stratum, near in zip(items, strata, alike(texts), strict=True):
        before = [items[at].id for at in near]
        if item.conversation is not None:
            before.append(begun.setdefault(item.conversation, item.id))
        before = [name for name in before if name != item.id]
        groups[item.id] = min(
            (groups[name] for name in before), key=order.__getitem__, default=item.id
        )
        kept = {parts[name] for name in before} - {None}
        if len(kept) > 1:
            parts[item.id] = None
            continue
        part = kept.pop() if kept else None
        if part is None:
            part = _throw(split.salt, stratum, item.id, shares, placed[stratum])
        parts[item.id] = part
        placed[stratum][part] += 1
    return Drawn(parts=parts, groups=groups)


def _throw(
    salt: str, stratum: str, name: str, shares: Mapping[Part, float], placed: Mapping[Part, int]
) -> Part:
    """The part of an item that follows nobody."""
    n = sum(placed.values()) + 1 + _SLACK
    lacking = {part: max(0.0, n * shares[part] - placed[part]) for part in PARTS}
    said = "\x00".join((salt, stratum, name)).encode()
    u = int.from_bytes(hashlib.sha256(said).digest()[:8]) / 2**64 * sum(lacking.values())
    for part, lacks in lacking.items():
        u -= lacks
        if u < 0:
            return part
    return max(lacking, key=lacking.__getitem__)  # the last crumb of rounding


def _asked(item: Item) -> list[str]:
    """What users say; a system message shared by all would make all alike."""
    return [m["content"] for m in item.messages if m["role"] == "user"] + list(item.later)
