"""Walks through a file of requests: several at once, each line answered once and for ever.

An answer is one line, synced to the disk before it counts. A run that was killed goes on where it
was: lines that are answered already are skipped, errors included, and a cut last line is removed
and computed again. Answers come in the order they finish. What no line can say (the engine died,
the run was interrupted) leaves its request unanswered, for the next run.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from outpace.api import Model
from outpace.batch.answer import Context, response_body
from outpace.batch.body import URLS, Job, read_body
from outpace.core.sequence import Sequence
from outpace.engine.service import Service
from outpace.engine.stream import Stream
from outpace.errors import CapacityError, ConfigError, RequestError
from outpace.journal import Journal, read_lines
from outpace.text.stream import StopWatch

_FIRST_PAUSE_S, _LAST_WRITE_S = 0.05, 10.0
# An answer's key: its custom_id, or the number of a line that has none that can be used.
Key = str | int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the input. request: None if it cannot be read, and problem says why."""

    key: Key
    digest: str
    request: tuple[Job, str] | None = None
    problem: str | None = None
    bad_request: RequestError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Lines so far: answered before this run, answered now, and of those now how many failed."""

    total: int
    before: int
    now: int
    failed: int


Tell = Callable[[Progress], None]


class BatchRun:
    """Answers what `answers` still lacks of `requests`.

    Raises:
        ConfigError: a file cannot be used, or `answers` belongs to other requests.
        CapacityError: another process writes `answers`.
    """

    def __init__(self, requests: Path, answers: Path, *, clock: Callable[[], float] = time.time):
        if answers.exists() and requests.exists() and answers.samefile(requests):
            raise ConfigError(f"{requests} is both input and output; name another output")
        self._requests, self._clock = requests, clock
        self._total = sum(1 for _ in _lines(requests))
        self._journal = Journal(answers, sync=True)
        try:
            self._done = _answered(answers)
            self._check_same_requests()
        except BaseException:
            self._journal.close()
            raise
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._n_before = self._n_now = self._n_failed = 0

    def run(self, model: Model, service: Service, *, concurrency: int, tell: Tell) -> Progress:
        """Answer every line that has no answer yet; returns when all have.

        Raises:
            ContractError: the engine died; what was answered is kept.
        """
        lines = self._todo()

        def work() -> None:
            try:
                while not self._stopped.is_set():
                    with self._lock:
                        line = next(lines, None)
                    if line is None:
                        return
                    self._answer(line, model, service)
                    tell(self.progress())
            except BaseException as error:  # raised again by the thread that waits
                self._failure = self._failure or error
                self._stopped.set()

        self._threads = [threading.Thread(target=work, daemon=True) for _ in range(concurrency)]
        try:
            for thread in self._threads:
                thread.start()
            for thread in self._threads:
                thread.join()
        finally:
            self._stopped.set()
        if self._failure is not None:
            raise self._failure
        return self.progress()

    def progress(self) -> Progress:
        """Where the run is."""
        return Progress(
            total=self._total, before=self._n_before, now=self._n_now, failed=self._n_failed
        )

    def close(self) -> None:
        """Let go of the output, after the last answer in the making is written."""
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_LAST_WRITE_S)
        self._journal.close()

    def _check_same_requests(self) -> None:
        """Before anything is computed: what is answered was asked by these very lines."""
        for line in self._all_lines() if self._done else ():
            if self._done.get(line.key, line.digest) != line.digest:
                raise ConfigError(
                    f"{self._journal.path} answers another request {line.key!r} than "
                    f"{self._requests} has; name another output"
                )

    def _todo(self) -> Iterator[Line]:
        for line in self._all_lines():
            if line.key in self._done:
                self._n_before += 1
            else:
                yield line

    def _all_lines(self) -> Iterator[Line]:
        seen: set[Key] = set()
        for at, text in _lines(self._requests):
            line = read_line(text, at)
            if line.key in seen:
                line = Line(
                    key=at, digest=line.digest, problem=f"custom_id {line.key!r} occurs twice"
                )
            seen.add(line.key)
            yield line

    def _answer(self, line: Line, model: Model, service: Service) -> None:
        if line.problem is not None:
            self._write(line, None, {"code": "invalid_line", "message": line.problem})
            return
        try:
            if line.request is None:
                raise line.bad_request or RequestError("the request cannot be read")
            job, name = line.request
            sequences = self._ask(job, model, service)
            if sequences is None:
                return  # interrupted: the next run's
            context = Context(
                tokenizer=model.tokenizer, model=model.name, created=int(self._clock()), id=name
            )
            self._write(line, (200, response_body(job, sequences, context)), None)
        except RequestError as error:
            problem = {
                "message": str(error), "type": "invalid_request_error", "param": None, "code": None,
            }  # fmt: skip
            self._write(line, (400, {"error": problem}), None)

    def _ask(self, job: Job, model: Model, service: Service) -> list[Sequence] | None:
        streams: list[Stream] = []
        for prompt in job.prompts:
            ids = model.encode(prompt, raw=isinstance(prompt, str))
            for choice in range(job.n):
                stream = self._submit(ids, job, choice, model, service)
                if stream is None:
                    return None
                streams.append(stream)
        ends = [stream.wait() for stream in streams]
        if "abort" in ends:
            return None
        return [stream.sequence for stream in streams]

    def _submit(
        self, ids: list[int], job: Job, choice: int, model: Model, service: Service
    ) -> Stream | None:
        """Queue one answer, coming back as often as the service is full."""
        sampling = job.sampling_of(choice)
        while not self._stopped.is_set():
            stops = StopWatch(model.tokenizer, sampling.stop) if sampling.stop else None
            try:
                return service.submit(ids, sampling, limits=job.limits, stops=stops)
            except CapacityError as error:
                if error.retry_after_s is None:
                    return None  # shutting down
                self._stopped.wait(error.retry_after_s or _FIRST_PAUSE_S)
        return None

    def _write(
        self, line: Line, response: tuple[int, dict[str, object]] | None,
        error: dict[str, object] | None,
    ) -> None:  # fmt: skip
        if error is not None and isinstance(line.key, int):
            error = {**error, "line": line.key}
        self._journal.append({
            "id": f"batch_req_{line.digest}",
            "custom_id": line.key if isinstance(line.key, str) else None,
            "response": None if response is None else {
                "status_code": response[0], "request_id": f"req_{line.digest}", "body": response[1],
            },
            "error": error,
        })  # fmt: skip
        with self._lock:
            self._n_now += 1
            self._n_failed += response is None or response[0] != 200


def read_line(text: bytes, at: int) -> Line:
    """A line of the input, readable or not; at: its number."""
    digest = hashlib.sha256(text.strip()).hexdigest()[:24]
    try:
        document = json.loads(text)
    except ValueError as error:  # not UTF-8 is a ValueError too
        return Line(key=at, digest=digest, problem=f"line {at} is no JSON: {error}")
    name = document.get("custom_id") if isinstance(document, dict) else None
    if not isinstance(name, str) or not name:
        return Line(key=at, digest=digest, problem=f"line {at} has no custom_id that is a text")
    try:
        extra = sorted(set(document) - {"custom_id", "method", "url", "body"})
        if extra:
            raise RequestError(f"unknown {', '.join(extra)}; allowed: custom_id, method, url, body")
        if document.get("method") != "POST" or document.get("url") not in URLS:
            raise RequestError(
                f"method {document.get('method')!r}, url {document.get('url')!r}; allowed: POST, "
                f"{' or '.join(URLS)}"
            )
        job = read_body(document.get("body"), URLS[document["url"]])
    except RequestError as error:
        return Line(key=name, digest=digest, bad_request=error)
    return Line(key=name, digest=digest, request=(job, digest))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for at, line in enumerate(file, start=1):
                if line.strip():
                    yield at, line
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None


def _answered(path: Path) -> dict[Key, str]:
    done: dict[Key, str] = {}
    for at, line in read_lines(path):
        name, digest = line.get("custom_id"), str(line.get("id", ""))
        key = name if name is not None else (line.get("error") or {}).get("line")
        if not isinstance(key, str | int) or not digest.startswith("batch_req_"):
            raise ConfigError(f"{path}:{at} is no answer of a batch; name another output")
        done[key] = digest.removeprefix("batch_req_")
    return done
