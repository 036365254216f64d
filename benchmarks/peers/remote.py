"""Client of an engine that runs in an environment of its own: requests and answers are lines of JSON.

One request a line on the other end's standard input, one answer a line on its standard output::

    {"op": "sql", "statement": "select 1"}
    {"ok": true, "result": [["1"]]} or {"ok": false, "error": "what went wrong"}

The first answer says that it is up.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_LOG_TAIL: Final = 3000


class RemoteError(Exception):
    """The engine refused, failed or died."""


class Remote:
    """One engine's process; it is up when the constructor returns.

    Raises:
        RemoteError: from the constructor and :meth:`call`: the operation failed, or the process ended.

    Args:
        env: its whole environment; ``BENCH_SCRATCH`` is added, a folder that goes with the process.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)
        self._log = Path(self._scratch.name) / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**env, "BENCH_SCRATCH": self._scratch.name},
                cwd=self._scratch.name,
                text=True,
            )
        try:
            self._answer()
        except RemoteError:
            self.close()
            raise

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RemoteError(f"the engine's process ended: {self._log.read_text(errors='replace')[-_LOG_TAIL:]}")
        answer = json.loads(line)
        if not answer["ok"]:
            raise RemoteError(answer["error"])
        return answer["result"]

    def call(self, op: str, **request: object) -> Any:
        """Send one request and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process: it stops when its input ends."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._scratch.cleanup()
