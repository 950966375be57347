"""A server of a few lines for tests: `python fake_server.py PORT [WORDS]`; GET /die ends it.

It answers every chat with the same words, streams them, counts them as llama.cpp does, and tells
neither token ids nor log-probabilities.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = (sys.argv[2] if len(sys.argv) > 2 else "to be or not to be that is the question").split()


class Handler(BaseHTTPRequestHandler):
    """All of it."""

    n_tokens = 0

    def do_GET(self) -> None:
        if self.path == "/die":
            os._exit(3)
        if self.path == "/v1/models":
            self._send({"data": [{"id": "fake"}]})
        elif self.path == "/metrics":
            self._send(f"llamacpp:tokens_predicted_total {Handler.n_tokens}\n")
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions" or "speculation_metrics" in asked:
            self.send_error(404)
            return
        words = WORDS[: asked.get("max_tokens", 4)]
        Handler.n_tokens += len(words)
        said = {"draft_n": 4, "draft_n_accepted": 2} if len(WORDS) > 4 else {}
        parts: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": word + " "}}]} for word in words
        ]
        parts.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}],
                      "timings": {"predicted_n": len(words), **said}})  # fmt: skip
        parts.append({"choices": [], "usage": {"prompt_tokens": 3,
                                               "completion_tokens": len(words)}})  # fmt: skip
        body = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
        self._send(body)

    def log_message(self, *args: Any) -> None:
        pass

    def _send(self, body: Any) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
