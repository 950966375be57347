"""Chat templates render as transformers renders them, and no template gets out of its cage."""

import time
from datetime import UTC, datetime

import pytest

from outpace.errors import ModelCorrupt, RequestError
from outpace.text.sandbox import Limits
from outpace.text.template import ChatTemplate, Message

TALK: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": 'Hi <b> "there" & é'},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
]
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] | trim ~ '\n\n' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = '' -%}{%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant") }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') }}
    {{- message['content'] | trim ~ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"""
TOOLS = """{%- macro one(tool, indent=2) -%}{{ tool | tojson(indent=indent) }}{%- endmacro -%}
{% set ns = namespace(n=0) %}
{% for tool in tools or [] %}
  {% set ns.n = ns.n + 1 %}
  {{ ns.n }}: {{ one(tool) }}
  {% if loop.index > 1 %}{% break %}{% endif %}
{% endfor %}
{% for m in messages if m.role != 'system' %}{% if m.role == 'assistant' %}{% generation %}
{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ m.content.split(' ')[-1] }}
{% endif %}{% endfor %}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ {'b': 1, 'a': "é<"} | tojson }} {{ 'x' * 3 }} {{ '%s-%02d' % ('a', 7) }} {{ 2 ** 10 }}"""
TOOL = {"name": "weather", "parameters": {"type": "object", "city": "Zürich"}}


@pytest.mark.parametrize("source", [CHATML, GEMMA, TOOLS])
@pytest.mark.parametrize("ask", [True, False])
def test_templates_render_as_transformers_renders_them(source: str, ask: bool) -> None:
    chat = pytest.importorskip("transformers.utils.chat_template_utils")
    ours = ChatTemplate(source, bos_token="<bos>", eos_token="<eos>")  # noqa: S106 (no secret)
    text = ours.render(TALK, add_generation_prompt=ask, tools=[TOOL, TOOL, TOOL])
    theirs, _ = chat.render_jinja_template(
        conversations=[TALK], chat_template=source, tools=[TOOL, TOOL, TOOL],
        add_generation_prompt=ask, bos_token="<bos>", eos_token="<eos>",  # noqa: S106
    )  # fmt: skip
    assert text == theirs[0]


def test_the_clock_is_the_one_passed_in() -> None:
    def noon() -> datetime:
        return datetime(2024, 7, 26, 12, tzinfo=UTC)

    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", now=noon)
    assert template.render(TALK) == "26 Jul 2024"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('true').read() }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__code__ }}",
        "{{ (messages|attr('__class__')).__base__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{% set _ = messages.append(1) %}",
        "{% set _ = messages[0].update({'role': 'x'}) %}",
        "{{ self._TemplateReference__context }}",
        "{% include '/etc/hostname' %}",
        "{% import 'os' as os %}",
    ],
)
def test_no_template_reaches_python(source: str) -> None:
    before = [dict(message) for message in TALK]
    try:
        text = ChatTemplate(source).render(TALK)
    except RequestError:
        text = ""
    assert text == ""
    assert before == TALK


LOOP = "{% for i in range(90000) %}"
END = "{% endfor %}"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (LOOP * 3 + END * 3, "looped"),
        ("{% set r = range(90000)|list %}{% for a in r %}{% for b in r %}" + END * 2,
         "looped"),
        ("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError|looped"),
        ("{% set ns = namespace(x='aaaaaaaaaa') %}" + LOOP
         + "{% set ns.x = ns.x ~ ns.x %}" + END, "built"),
        ("{% set ns = namespace(x='aaaaaaaaaa') %}" + LOOP
         + "{% set ns.x = ns.x + ns.x %}" + END, "built"),
        ("{{ 'a' * 999999999 }}", "built"),
        ("{{ [1] * 999999999 }}", "built"),
        ("{{ 9 ** 999999999 }}", "built"),
        ("{{ 'a'.ljust(999999999) }}", "built"),
        ("{{ 'aaaa'.replace('', 'b' * 19000000) }}", "built"),
        ("{{ 'aaaa'|replace('a', 'b' * 19000000) }}", "built"),
        ("{{ '%999999999d' % 1 }}", "width"),
        ("{{ '{:999999999d}'.format(1) }}", "width"),
        ("{{ 'a'|indent(999999999, true) }}", "built"),
        (LOOP + "x" * 1000 + END, "wrote"),
        ("{% set x %}" + LOOP + "x" * 1000 + END + "{% endset %}", "wrote"),
        ("{% set b = 'b' * 1000000 %}{% set x %}" + LOOP + "{{ b }}" + END + "{% endset %}",
         "wrote"),
        ("{{ range(999999999)|list|length }}", "failed|built"),
        ("{{ 'a'|center(999999999) }}", "center"),
    ],
)  # fmt: skip
def test_a_hostile_template_ends_with_an_error(source: str, words: str) -> None:
    """The clock is the last of its limits: whatever another one bounds ends before it."""
    with pytest.raises((RequestError, ModelCorrupt), match=words):
        ChatTemplate(source, limits=Limits(max_s=60)).render(TALK)


def test_a_template_that_only_takes_its_time_is_ended_by_the_clock() -> None:
    began = time.monotonic()
    with pytest.raises(RequestError, match=r"took longer than 0\.05 s"):
        ChatTemplate(
            LOOP * 3 + END * 3, limits=Limits(max_s=0.05, max_turns=10**12)
        ).render(TALK)  # fmt: skip
    assert time.monotonic() - began < 60


def test_limits_are_per_call_and_leave_the_template_usable() -> None:
    template = ChatTemplate(
        "{% for i in range(messages[0].n) %}{% endfor %}ok", limits=Limits(max_turns=1000)
    )
    with pytest.raises(RequestError, match="looped more than 1000"):
        template.render([{"role": "user", "n": 5000}])
    assert template.render([{"role": "user", "n": 900}]) == "ok"
    assert template.render([{"role": "user", "n": 900}]) == "ok"


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "no messages"),
        ([{"content": "x"}], "message 0 has role None"),
        ([{"role": 3, "content": "x"}], "message 0 has role 3"),
        ([{"role": "user", "content": object()}], "not plain data"),
        ([{"role": "assistant", "content": "x"}], "must alternate"),
        ([{"role": "user"}], "failed on these messages|does not take"),
    ],
)
def test_bad_messages_are_refused_with_what_to_do(messages: list[Message], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        ChatTemplate(GEMMA if "content" in str(messages) else CHATML).render(messages)


@pytest.mark.parametrize("source", ["{% if %}", "{{ x", "x" * 1_000_001, "{% unknown %}"])
def test_a_template_that_is_none_is_refused(source: str) -> None:
    with pytest.raises(ModelCorrupt, match="raw=True"):
        ChatTemplate(source)
