"""Whatever fits the published schema, or nearly, is answered or refused: never a 500."""

import os
import subprocess
import sys
from pathlib import Path

from outpace.server.settings import Settings
from server.live import running
from server.shaped import shaped_model

# Never ends by itself; other tests read it.
ENDLESS = "/outpace/events"


def test_requests_that_nobody_thought_of(tmp_path: Path) -> None:
    settings = Settings(port=0, unknown_fields=True)  # else most bodies end there
    with running(shaped_model(context_tokens=600), settings) as live:
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", f"{live.url}/openapi.json",
             "--checks", "not_a_server_error", "--phases", "coverage,fuzzing",
             "--max-examples", "20", "--seed", "1", "--exclude-path", ENDLESS,
             "--request-timeout", "100", "--suppress-health-check", "all", "--no-color"],
            capture_output=True, text=True, check=False, timeout=280, cwd=tmp_path,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "server.fuzz_hooks",
                 "PYTHONPATH": str(Path(__file__).parents[1])},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Tested: 11" in done.stdout, done.stdout
        statuses = live.http.get("/metrics").text
        live.idle()
    assert 'status="200"' in statuses
    assert 'route="/v1/chat/completions",status="200"' in statuses, statuses
    assert 'status="5' not in statuses


def test_the_schema_names_every_path_and_body() -> None:
    with running() as live:
        schema = live.http.get("/openapi.json").json()
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"):
        assert "requestBody" in schema["paths"][path]["post"]
    assert ENDLESS in schema["paths"]
