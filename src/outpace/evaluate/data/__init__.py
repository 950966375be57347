"""What is asked: prompts with factors and checks, split once, graded by rules fixed before.

    from outpace.evaluate.data import load, counts, grade, bad_case, longer, graded_by

    items = load(plan.data, plan.sampling, count_tokens, folder=plan_path.parent)   # -> Items
    items.dev, items.test, items.confirm      tuples of Item, in the order of the file
    items.part("test")                        the same by name; ConfigError if nothing is in it
    items.digests                             {"data": sha256, "split": sha256, "dev": ..., "test":
                                              ..., "confirm": ...}: "data" and "split" are what the
                                              lineage of every statement carries
    items.notes                               what was left out and why, for the report's limits
    counts(items)                             -> plan.lint.Counts, of what the split gave

    item.id, item.category, item.language, item.case_kind      all texts; case_kind is one of
                                              ordinary | difficult | misleading
    item.messages, item.later, item.n_turns   as in `bench.workload.Item`; `item.asked` is one
    item.prompt                               the text of its first user message
    item.temperatures                         at which it is asked: its own, or the plan's
    item.n_prompt_tokens                      counted, or estimated where nobody can count
    item.subgroups                            factor -> value, without the temperature
    item.at(temperature)                      the same with it: `Measurement.subgroups`
    item.check                                a `graders.checks.Check`, or None = nothing to check
    item.digest                               sha256 of what is asked and how it is checked

    grade(item, text)                         -> measurement.Grade | None (None: no check); text is
                                              the answer to the last turn
    graded_by(items, function)                items without a check get a function of your own,
                                              `(Item, str) -> bool | float | Grade`
    bad_case(items, "adversarial")            -> tuple[Item, ...], for `failure_mode.cases`: of
                                              dev and test with `"probe": CASE`, or shipped
    longer(item, n_tokens, count_tokens)      the item with so many tokens of text before it

count_tokens: `Callable[[str], int]`, usually the length of a tokenizer's encoding; None = estimate.
A data file is JSONL (or one JSON array) in the shapes `bench.workload` reads; each line may have
id, category, language, case_kind, temperature, conversation, check, and any key of
your own, which `field:KEY` groups by. Checks:

    {"type": "exact", "answers": ["..."], "normalised": true}     the whole answer
    {"type": "contains", "all": [...], "any": [...], "none": [...]}
    {"type": "numeric", "answer": 12.5, "tolerance": 0.01}        the last number of the answer
    {"type": "regex", "pattern": "...", "whole": false}
    {"type": "json", "fits": {schema}, "equals": ...}             the JSON document in the answer
    {"type": "python", "tests": "assert f(2) == 4"}               the code in the answer, run apart

The split is drawn over the whole file, before filter and limit: a prompt never changes its part
because another question is asked of the same file. Rows may be added at its end.
"""

from outpace.evaluate.data.answers import grade, graded_by
from outpace.evaluate.data.items import Item, Items, Part
from outpace.evaluate.data.load import counts, load
from outpace.evaluate.data.probes import bad_case, longer

__all__ = [
    "load", "counts", "grade", "graded_by", "bad_case", "longer", "Item", "Items", "Part",
]  # fmt: skip
