"""A tiny model whose tokens span several of JSON's, and requests for the shapes it may write."""

from typing import Any

from engine.grammars import CHOICES, EBNF, LARK, REGEXES, SCHEMAS
from outpace.api import Model
from outpace.control.limits import FixedControl, Limits
from outpace.drafters.registry import Context, make
from outpace.runtimes.toy import TableRuntime, random_table
from outpace.text.template import ChatTemplate
from outpace.text.tokenizer import Tokenizer
from text.grammar.tokens import wide_backend

TEMPLATE = (
    "{% if tools %}<tool_call>{{ tools | tojson }}</tool_call>{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
)
N_PADDED = 9


def shaped_model(*, drafter: str = "mix:lookup+suffix", context_tokens: int = 900) -> Model:
    """Random, so that nothing but the grammar gives its answers a shape."""
    tokenizer = Tokenizer.wrap(wide_backend())
    end = tokenizer.id_of("<end>")
    assert end is not None
    vocab_size = tokenizer.vocab_size + N_PADDED
    runtime = TableRuntime(
        random_table(vocab_size, seed=3, memory=1, sharpness=3.0),
        vocab_size=vocab_size,
        context_tokens=context_tokens,
        eos_ids=frozenset({end}),
    )
    return Model(
        name="shaped",
        runtime=runtime,
        drafter=make(drafter, Context(target=runtime.traits)),
        tokenizer=tokenizer,
        template=ChatTemplate(TEMPLATE),
        make_control=lambda _, limits: FixedControl(limits or Limits(max_nodes=6, max_depth=6)),
    )


def fields_for() -> dict[str, list[dict[str, Any]]]:
    """By the names of `engine.grammars.WANTED`: every way to ask for that shape."""
    asked: dict[str, list[dict[str, Any]]] = {}
    for name, schema in SCHEMAS.items():
        form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
        asked[name] = [
            {"response_format": form},
            {"structured_outputs": {"json": schema}},
            {"guided_json": schema},
        ]
    for pattern in REGEXES:
        asked[pattern] = [{"structured_outputs": {"regex": pattern}}, {"guided_regex": pattern}]
    for options in CHOICES:
        asked["/".join(options)] = [
            {"structured_outputs": {"choice": options}},
            {"guided_choice": options},
        ]
    for name, source in (("lark", LARK), ("ebnf", EBNF)):
        asked[name] = [{"structured_outputs": {"grammar": source}}, {"guided_grammar": source}]
    return asked
