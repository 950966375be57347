"""`outpace evaluate init`: a commented plan to begin with, from flags or from questions."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from outpace.cli.evaluate.shell import command
from outpace.cli.options import DEFAULT_MODEL
from outpace.cli.terminal import console, free_path, say
from outpace.errors import RequestError

_TEMPLATE = """\
# A plan: written before anything is measured, locked, then judged as it says.
#   outpace evaluate lint {file}     what is unwise or cannot work
#   outpace evaluate run {file}      everything in order, up to a verdict
apiVersion: outpace/v1
kind: EvaluationPlan
metadata: {{name: {name}, owner: {owner}}}

decision:
  statement: {statement}
  population: {population}
  consequence_if_wrong: users wait longer, or read wrong text
  falsified_by: [text, speed]          # ids of criteria below whose FAIL refutes the decision
{target}
arms:                                  # baseline: the simplest credible alternative
{arms}
data:
  source: {source}                     # your own prompts say most: JSONL with prompt or messages
  split: {{salt: {name}, dev: 0.2, test: 0.5, confirm: 0.3, stratify: category}}
  subgroups: [category]

sampling: {{max_tokens: 128, temperatures: [0]}}
design: {{blocks: 2, order: ABBA, warmup: 4, streams: 1}}

criteria:
  - {{id: text, type: same_text, max_mismatches: 0, min_tokens: 512, critical: true}}
  # the one claim: at least {effect:g} times as fast, shown at 95 %
  - {{id: speed, type: superiority, metric: e2el, min_effect: {effect:g}, primary: true}}
  - {{id: first_token, type: non_inferiority, metric: ttft, margin_ratio: 1.1}}
{more}"""
_LOCAL_ARMS = """\
  baseline: {{drafter: none}}
  candidate: {{drafter: {drafter}}}
  fallback: {{drafter: {drafter}, force: breaker_open}}   # what is left when guessing is given up
"""
_REMOTE_ARMS = """\
  baseline: {{endpoint: {baseline}, model: {model}}}      # api_key_env: VARIABLE, if it needs a key
  candidate: {{endpoint: {candidate}, model: {model}}}
"""
_LOCAL_MORE = """\
  - {{id: fallback, type: non_inferiority, arm: fallback, metric: e2el, margin_ratio: 1.05}}
  - {{id: law, type: exact_law, tol: 1.0e-12}}

failure_mode:                          # guesses wrong on purpose: how slow can it get?
  forced_acceptance: [0, 0.5, 1]
  max_slowdown: 1.05
"""


@command
def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("plan.yaml"),
    name: Annotated[str | None, typer.Option(help="Of the plan, in reports.")] = None,
    owner: Annotated[str | None, typer.Option(help="Who answers for the decision.")] = None,
    statement: Annotated[str | None, typer.Option(help="What is to be decided.")] = None,
    population: Annotated[str | None, typer.Option(help="For which traffic.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="What arms serve.")] = None,
    drafter: Annotated[str | None, typer.Option(help="Of the candidate, in this process.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Endpoint without speculation.")] = None,
    candidate: Annotated[str | None, typer.Option(help="Endpoint with speculation.")] = None,
    prompts: Annotated[str | None, typer.Option(help="JSONL of prompts, or builtin.")] = None,
    effect: Annotated[float, typer.Option(help="Gain that is worth the change.", min=1)] = 1.1,
    force: Annotated[bool, typer.Option("--force", help="Write over a file.")] = False,
) -> int:
    """Write a plan to begin with; asks for what was not given, on a terminal."""
    if path.exists() and not force:
        raise RequestError(f"{path} is there already; name another file, or add --force")
    if (baseline is None) != (candidate is None):
        raise RequestError("endpoints come in pairs: give both --baseline and --candidate")
    asked = _Questions()
    remote = baseline is not None and candidate is not None
    name = name or asked("Name of the plan", re.sub(r"[^\w.-]+", "-", path.stem) or "plan")
    fields: dict[str, object] = {
        "file": path.name,
        "name": name,
        "owner": quoted(owner or asked("Who answers for the decision", "unknown")),
        "statement": quoted(statement or asked("What is to be decided", "Turn speculation on")),
        "population": quoted(population or asked("For which traffic", "the prompts of the data")),
        "source": quoted(prompts or asked("Prompts (a JSONL file, or builtin)", "builtin")),
        "effect": effect,
    }
    model = model or asked("Model", DEFAULT_MODEL)
    if remote:
        arms = _REMOTE_ARMS.format(baseline=baseline, candidate=candidate, model=quoted(model))
        target, more = "", ""
    else:
        drafter = drafter or asked("Drafter of the candidate", "auto")
        arms = _LOCAL_ARMS.format(drafter=quoted(drafter))
        target, more = f"\ntarget: {{model: {quoted(model)}}}\n", _LOCAL_MORE.format()
    text = _TEMPLATE.format(**fields, target=target, arms=arms, more=more)
    free_path(path).write_text(text, encoding="utf-8")
    say("written: ", f"{path}; next: outpace evaluate lint {path}")
    return 0


class _Questions:
    """Asks on a terminal; elsewhere takes what was suggested."""

    def __call__(self, what: str, suggested: str) -> str:
        if not sys.stdin.isatty():
            return suggested
        console().print(f"{what} [dim]\\[{suggested}][/]: ", end="")
        return sys.stdin.readline().strip() or suggested


def quoted(text: str) -> str:
    """A text as YAML reads it in any place."""
    plain = re.fullmatch(r"[A-Za-z][\w./-]*", text) is not None
    reserved = text.lower() in ("true", "false", "yes", "no", "on", "off", "null")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return text if plain and not reserved else f'"{escaped}"'
