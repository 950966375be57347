"""From a locked plan to a verdict: should this configuration be adopted for this traffic?

One way only: plan -> statements -> measurements -> outcomes -> verdict -> report. Deciding is
pure, and everything that was decided can be decided again from the files of a run's folder:

    plan.yaml   ledger.jsonl + ledger.head   records.jsonl   lineage.json   report.json, report.html

What there is:

    plan/            `read_plan(path) -> Plan`, `Plan.identity`, `lint(plan, facts) -> findings`
    ledger.py        `Ledger(folder).append(Statement)`, `read_ledger(folder)`: hash-chained
    phases.py        `what_follows(statements, now) -> State`: what may run, what was undone
    measurement.py   `Measurement`, `Window`, `read_measurements(path, plan=)`: what is kept
    verdict.py       `Outcome` per criterion, `decide(promised(plan), outcomes) -> Verdict`, exits
    exactness.py     texts with guesses against texts without, in this process
    schemas/         the JSON Schemas of plan, ledger and records

What is to come, and who calls whom. `outpace evaluate` is the shell: it reads, asks `State`
whether a phase may run, opens arms, runs the phase, appends its statement.

    arms/      An arm as something to ask. `open_arm(name, arm, plan, models) -> context manager of
               OpenArm`, where `OpenArm.client` is a `bench.client.Client`, `OpenArm.counters() ->
               Mapping[str, float] | None` reads what the server counted, and `OpenArm.facts ->
               Mapping[str, str]` goes into the lineage. In-process, managed, endpoint; one adapter
               per engine (outpace, vllm, sglang, llama.cpp) knows the names of its counters.
    data/      `load(data, sampling, count_tokens, folder=) -> Items` in three parts that a file's
               growth does not change, `counts(items) -> plan.lint.Counts`, `grade(item, text) ->
               measurement.Grade`, code in a sandbox, and the prompts that are shipped.
    measure/   `schedule(plan, prompts) -> blocks of asks` (pure: blocks, order, pairs), and
               `run(blocks, arms, journal, done, attempt)`, which writes a Measurement per answer
               and a Window per block; an interrupted pair is asked again under the next attempt.
    exact/     verify: same text, same law, the contract checks of `endpoint`, the enumeration.
    failure.py, load.py, whatif.py   variants of a plan, measured by `measure/` under their name.
    judge/     `judge(plan, measurements) -> tuple[Outcome, ...]`, one function per criterion type,
               bounds from `stats`; the only place that turns numbers into PASS or FAIL.
    lineage.py `lineage(plan, arms, ...) -> Mapping[str, str]`, the `now` of `what_follows`.
    report/    pure functions of plan, statements, measurements and verdict: JSON, page, console,
               speculation profile, in-toto statement.

Models are opened by a function that the shell passes in, as everywhere below `build.py`. A plan,
a ledger and a verdict load no torch.
"""
