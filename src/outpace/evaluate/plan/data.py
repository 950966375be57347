"""What is asked, how it is split, and in which order arms take turns."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from outpace.evaluate.plan.shape import AtLeastOne, Count, Many, Shape, Share, Text, wrong

BUILT_IN = "builtin"
_FACTORS = "category|language|case_kind|prompt_length|temperature"
Factor = Annotated[str, Field(pattern=rf"^({_FACTORS}|field:.+)$")]
"""What requests may be grouped by: these, or `field:KEY`, a key of your own in the data."""


class Split(Shape):
    """Shares of the prompts, drawn by a hash of salt and prompt id, per value of `stratify`."""

    salt: Text
    dev: Share
    test: Annotated[float, Field(gt=0, le=1)]
    confirm: Share
    stratify: Factor | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        total = self.dev + self.test + self.confirm
        if abs(total - 1) > 1e-9:
            raise wrong(f"dev + test + confirm = {total:g}; allowed: exactly 1")
        return self


class Data(Shape):
    """source: a JSONL file, relative to the plan's folder, or `builtin`, the prompts shipped.

    filter: only prompts whose factor has one of these values. limit: only the first so many of
    what is left. length_edges_tokens: where the groups of `prompt_length` part.
    """

    source: Text
    split: Split
    subgroups: Many[Factor] = ()
    filter: dict[Factor, Many[Text]] = Field(default_factory=dict)
    limit: AtLeastOne | None = None
    length_edges_tokens: Many[AtLeastOne] = (128, 512, 2048)

    @model_validator(mode="after")
    def _orders(self) -> Self:
        if list(self.length_edges_tokens) != sorted(set(self.length_edges_tokens)):
            raise wrong("edges must rise", key="length_edges_tokens")
        if len(set(self.subgroups)) < len(self.subgroups):
            raise wrong("a subgroup is named twice", key="subgroups")
        if any(not values for values in self.filter.values()):
            raise wrong("a filter without values leaves nothing", key="filter")
        return self


class Sampling(Shape):
    """How every request is sampled. Each prompt is asked once per temperature."""

    max_tokens: AtLeastOne = 128
    temperatures: Annotated[Many[Annotated[float, Field(ge=0, le=10)]], Field(min_length=1)] = (
        0.0,
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Count = 0
    min_p: Share = 0.0
    ignore_eos: bool = False


class Design(Shape):
    """paired: arms answer the same request next to each other in time. blocks: how often every
    request is asked of every arm. order: of the arms within blocks. streams: at a time.
    warmup: requests before an arm counts. seed: of the order, and of sampling."""

    paired: bool = True
    blocks: AtLeastOne = 2
    order: Literal["ABBA", "ABAB", "random"] = "ABBA"
    warmup: Count = 4
    streams: AtLeastOne = 1
    seed: Count = 0
