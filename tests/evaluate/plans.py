"""The plan of the design, whole, for tests to change one thing in."""

import copy
from typing import Any

import yaml

from outpace.evaluate.plan.document import Plan
from outpace.evaluate.plan.read import parse_plan

WHOLE = """\
apiVersion: outpace/v1
kind: EvaluationPlan
metadata: {name: chat-suffix-vs-plain, owner: ops-team}
decision:
  statement: "Serve chat and code with drafter auto instead of plain decoding"
  population: "chat+code prompts up to 1k tokens, 2-core CPU, at most 8 at once"
  consequence_if_wrong: "users wait longer; wrong text if the exactness check is broken"
  falsified_by: [speed, exact_text, exact_law]
target: {model: smollm2-135m}
arms:
  baseline: {drafter: none}
  candidate: {drafter: auto}
  fallback: {drafter: auto, force: breaker_open}
data:
  source: prompts.jsonl
  split: {salt: c0ffee, dev: 0.3, test: 0.4, confirm: 0.3, stratify: category}
  subgroups: [category, language, case_kind, prompt_length, temperature]
design: {paired: true, blocks: 4, order: ABBA, warmup: 8, seed: 7}
load:
  scenarios:
    - {name: single, profile: synchronous}
    - {name: server, profile: poisson, rate_per_s: 2, min_requests: 200}
    - {name: replay, profile: trace, trace: azure-conv.csv, time_unit: s, time_scale: 10}
  slo_ms: {ttft: 500, tpot: 60}
  validity: {rate_tolerance: 0.05, max_failure_rate: 0.01, output_length_tolerance: 0.1}
criteria:
  - {id: exact_law, type: exact_law, tol: 1.0e-12, critical: true}
  - {id: exact_text, type: same_text, max_mismatches: 0, critical: true}
  - {id: speed, type: superiority, metric: e2el, min_effect: 1.15, alpha: 0.05, primary: true}
  - {id: tail, type: exceedance, metric: e2el, limit_ms: 8000, quantile: 0.99,
     not_worse_than: baseline, margin: 0.005}
  - {id: ttft, type: non_inferiority, metric: ttft, margin_ratio: 1.10}
  - {id: quality, type: non_inferiority, metric: pass_rate, margin_abs: 0.02}
  - {id: subgroups, type: all_subgroups_non_inferior, metric: e2el, margin_ratio: 1.05, min_n: 20}
  - {id: fallback, type: non_inferiority, arm: fallback, metric: e2el, margin_ratio: 1.05}
  - {id: cost, type: superiority, metric: cost_per_useful_outcome, min_effect: 1.0}
failure_mode:
  forced_acceptance: [0, 0.25, 0.5, 0.75, 1]
  cases: [domain_shift, language_switch, high_entropy, adversarial]
  max_slowdown: 1.05
what_if:
  - {change: drafter_removed}
  - {change: wrong_drafter}
  - {change: threads, threads: 1}
  - {change: data, filter: {language: [de]}}
  - {change: longer_context, context_tokens: 1000}
  - {change: forced_abstention}
"""


def changed(*steps: tuple[str, object]) -> str:
    """The plan's text with values set at paths such as `criteria.2.alpha`; `...` removes one."""
    document: Any = copy.deepcopy(yaml.safe_load(WHOLE))
    for path, value in steps:
        *way, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        here = document
        for part in way:
            here = here[part]
        if value is ...:
            del here[last]
        elif isinstance(here, list) and last == len(here):
            here.append(value)
        else:
            here[last] = value
    return yaml.safe_dump(document, sort_keys=False)


def plan(*steps: tuple[str, object]) -> Plan:
    """The plan, changed."""
    return parse_plan(changed(*steps))
