"""outpace beside the engines a user might pick instead: same prompts, same lengths, one run.

    python -m benchmarks.peers --time-budget 480

`environments` builds one virtual environment per peer, `arms` says what is compared, `workers/`
holds one small process per peer, `run` lets them take turns, `report/` turns the records into
numbers and into `docs/benchmarks.md`.
"""
