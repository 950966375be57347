"""The command line: `python -m benchmarks.peers`, or `make bench-peers`.

Stops cleanly when its time budget ends or on Ctrl-C, reports what it has, and resumes with the
same command. Progress goes to stderr, the results into --json and --page.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence as Seq
from pathlib import Path

from benchmarks.peers import environments, prompts
from benchmarks.peers.arms import ARMS, PEERS, Arm, choose
from benchmarks.peers.environments import REPOSITORY, PeerUnavailableError
from benchmarks.peers.report.page import write_page
from benchmarks.peers.session import Options, Session

from outpace.errors import OutpaceError


def parse(argv: Seq[str]) -> argparse.Namespace:
    """The command line; lists are separated by commas."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    add = parser.add_argument
    add("--model", default="smollm2-135m", help="a catalog name or file; the peers need GGUF")
    add("--prompts", type=Path, default=prompts.default_file(), help="JSONL, a prompt a line")
    add("--limit", type=int, help="most prompts, categories in turn")
    add("--categories", type=_listed, default=[], help="only these")
    names = ", ".join(arm.name for arm in ARMS)
    add("--arms", type=_listed, default=[], help=f"only these, or whole peers: {names}")
    add("--tokens", type=int, default=128, help="most tokens of an answer")
    add("--blocks", type=int, default=2, help="times every arm answers every prompt")
    add("--prefills", type=int, default=5, help="texts of 512 tokens to read")
    add("--streams", type=int, default=0, help="also this many at once, outpace and vLLM")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--time-budget", type=float, help="seconds; stops before a unit that would not fit")
    add("--max-load", type=float, default=1.0, help="load average to wait for before measuring")
    add("--max-foreign", type=float, default=0.1, help="CPU share of others that repeats a unit")
    add("--wait-quiet", type=float, default=600, help="seconds to wait for quiet, all in all")
    add("--records", type=Path, default=REPOSITORY / "out" / "peers" / "runs.jsonl")
    add("--fresh", action="store_true", help="measure again what the records already have")
    add("--across-commits", action="store_true", help="resume although the code has changed")
    add("--json", type=Path, default=REPOSITORY / "benchmarks" / "results" / "peers.json")
    add("--page", type=Path, default=REPOSITORY / "docs" / "benchmarks.md")
    add("--install-only", action="store_true", help="build the environments, measure nothing")
    add("--page-only", action="store_true", help="write the page from --json, measure nothing")
    return parser.parse_args(argv)


def _listed(text: str) -> list[str]:
    return text.split(",")


def say(text: str) -> None:
    """Progress: a line of its own in a log, one line rewritten on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def install(arms: Seq[Arm]) -> None:
    """Every environment in turn; what fails is said here, and again by the run."""
    for peer in sorted({arm.peer for arm in arms} & set(PEERS)):
        try:
            environments.ensure(peer)
            print(f"{peer}: ready", file=sys.stderr)
        except PeerUnavailableError as error:
            print(f"{peer}: left out, {error}", file=sys.stderr)


def main(argv: Seq[str]) -> int:
    """Measure, write, say where."""
    args = parse(argv)
    if args.install_only:
        install(choose(args.arms))
        return 0
    if not args.page_only:
        options = Options(
            model=args.model, prompts=args.prompts, limit=args.limit, categories=args.categories,
            arms=args.arms, n_tokens=args.tokens, n_blocks=args.blocks, n_prefill=args.prefills,
            n_streams=args.streams, threads=args.threads, budget_s=args.time_budget,
            max_load=args.max_load, max_foreign=args.max_foreign, wait_quiet_s=args.wait_quiet,
            records=args.records, fresh=args.fresh, across_commits=args.across_commits,
        )  # fmt: skip
        document = Session(options, say).document(argv)
        if not any(run["kind"] == "answer" for run in document["runs"]):
            raise ValueError(f"nothing to report: {document['ended']} before the first answer")
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    document = json.loads(args.json.read_text(encoding="utf-8"))
    write_page(document, args.page)
    print(f"{args.json}\n{args.page}")
    return 130 if document["ended"] == "interrupted" else 0


def _end(*_: object) -> None:
    """`timeout` and service managers stop a run as Ctrl-C does: what was measured is reported."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    try:
        sys.exit(main(sys.argv[1:]))
    except (OutpaceError, ValueError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
