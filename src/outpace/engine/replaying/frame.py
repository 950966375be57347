"""What frames the rounds: how a request began and ended, and the passes that rounds shared."""

from outpace.engine.replaying.audit import Audit
from outpace.engine.tracing import lines
from outpace.engine.tracing.course import Course, first_coin, identity


def check_request(line: lines.Request, header: lines.Header, audit: Audit) -> None:
    """A request's own numbers, and its seed by its first coin."""
    asked, ids = line.sampling, line.prompt_ids
    audit.same("first_coin", line.first_coin, first_coin(line.seed))
    if asked.seed is not None:
        audit.same("seed", line.seed, asked.seed)
    audit.same("identity", line.identity, identity(header.target, ids, asked, line.seed))
    if ids is not None:
        audit.same("prompt_tokens", line.prompt_tokens, len(ids))
    n, limit = line.prompt_tokens, header.target.context_tokens
    audit.true("prompt_tokens", 1 <= n < limit, n, f"1 to {limit - 1}")
    ok = 0 <= line.known_tokens < line.prompt_tokens
    audit.true("known_tokens", ok, line.known_tokens, f"0 to {n - 1}")


def check_end(line: lines.End, course: Course, audit: Audit) -> None:
    """The last line repeats what the rounds add up to."""
    finish = course.finish
    if finish is None:  # ended by the caller, or by an error outside a round
        finish = line.finish
        audit.true("finish", finish in ("abort", "error"), finish, "abort or error")
    audit.same("whether there is an error", line.error is not None, finish == "error")
    error = course.error if course.error is not None else line.error
    expected = course.end(finish, error)
    for name in ("finish", "error", "prompt_tokens", "completion_tokens", "text_digest", "totals"):
        audit.same(name, getattr(line, name), getattr(expected, name))


class Passes:
    """Rounds of one pass stand together, and agree on what they shared."""

    def __init__(self) -> None:
        self._batch: lines.Batch | None = None
        self._at_s: float | None = None
        self._n_lines = 0
        self._n_rows = 0

    def take(self, line: lines.Round, audit: Audit) -> None:
        """One round; begins a new pass where its number is new."""
        if self._batch is None or line.batch.index != self._batch.index:
            self.end(audit)
            before = self._batch.index if self._batch else -1
            audit.enter("pass")
            audit.true("index", line.batch.index > before, line.batch.index, f"above {before}")
            ok = self._at_s is None or (line.at_s is not None and line.at_s >= self._at_s)
            audit.true("at_s", ok, line.at_s, f"not before {self._at_s}")
            self._batch, self._at_s = line.batch, line.at_s
        audit.enter("pass")
        audit.same("what the pass's rounds shared", line.batch, self._batch)
        audit.same("at_s", line.at_s, self._at_s)
        self._n_lines += 1
        self._n_rows += line.score.input.n_rows

    def end(self, audit: Audit) -> None:
        """The pass is over: its lines are as many as it says, and so are their rows."""
        batch = self._batch
        if batch is None or self._n_lines == 0:
            return
        audit.enter("pass")
        audit.same("traced", self._n_lines, batch.traced)
        others = batch.sequences - batch.traced
        rest = batch.rows - self._n_rows
        audit.true("sequences", others >= 0, batch.sequences, f"at least {batch.traced}")
        ok = rest >= others if others else rest == 0
        audit.true("rows", ok, batch.rows, f"{self._n_rows} and those of {others} more sequences")
        self._n_lines = self._n_rows = 0
