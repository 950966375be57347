"""Runs a server, and ends it when whoever started it is gone, however that ended.

    python keeper.py COMMAND ...

Standard input is a pipe that nobody writes to: it ends when the other side does, be it by a kill
that leaves no time to clean up. Then the whole process group is told to end.
"""

import os
import signal
import subprocess
import sys
import threading
import time

PATIENCE_S = 15.0


def end_with_the_starter() -> None:
    """Wait for the end of standard input, then end the group."""
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(PATIENCE_S)
    os.killpg(0, signal.SIGKILL)


def main() -> int:
    """The command's exit code, 128 and more for signals."""
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # the group is told; this one ends with the server
    server = subprocess.Popen(
        sys.argv[1:],
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL),  # noqa: PLW1509 - no thread yet
    )
    threading.Thread(target=end_with_the_starter, daemon=True).start()
    code = server.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main())
