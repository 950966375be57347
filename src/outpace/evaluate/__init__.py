"""From a locked plan to a verdict: should this configuration be adopted for this traffic?

One way only: plan -> statements -> measurements -> outcomes -> verdict -> report. Deciding is
pure, and everything that was decided can be decided again from the files of a run's folder:

    plan.yaml   ledger.jsonl + ledger.head   records.jsonl   shares.jsonl   exact.jsonl
    lineage.json   report.json, report.html, speculation_profile.json, test-result.intoto.json

Who calls whom. `outpace evaluate` (cli/evaluate/) opens a session, asks its `State` whether a phase
may run, runs it, and shows what the judge makes of it:

    plan/            `read_plan(path) -> Plan`, `Plan.identity`, `lint(plan, facts) -> findings`
    study.py         the folder, what was done in it, and what bodies of statements hold
    ledger.py        `Ledger(folder).append(Statement)`, `read_ledger(folder)`: hash-chained
    phases.py        `what_follows(statements, now) -> State`: what may run, what was undone
    lineage.py       what everything rests on, as digests: the `now` of `what_follows`
    steps/           the phases as they are run, and `walk`, which runs them in order
    data/            prompts with factors and checks, split; grades
    arms/            arms as something to ask: in this process, endpoints, managed servers
    measure/         blocks in which arms take turns; loads that come when they come
    exact/           same text, same law, the contract checks, the enumeration (exact/law/)
    exactness.py     texts with guesses against texts without, in this process
    measurement.py   `Measurement`, `Window`, `read_measurements(path, plan=)`: what is kept
    judge/           `judge(plan, measurements, statements) -> tuple[Outcome, ...]`: the only place
                     that turns numbers into PASS or FAIL
    verdict.py       `Outcome` per criterion, `decide(promised(plan), outcomes) -> Verdict`, exits
    report/          pure functions of a study's folder: JSON, page, console, profile, attestation
    schemas/         the JSON Schemas of plan, ledger, records and report

Models are opened by a function that the shell passes in, as everywhere below `build.py`. A plan,
a ledger and a verdict load no torch.
"""
