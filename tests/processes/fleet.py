"""Processes that run `lakeindex` commands, and what may happen to one meanwhile: killed, or stopped and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).parents[2]
ANSWER_SECONDS: Final = 240.0


@dataclass(frozen=True)
class Answer:
    """How a command ended.

    Attributes:
        code: its exit code.
        said: the JSON object on its standard output.
        seconds: what it took.
    """

    code: int
    said: dict[str, Any]
    seconds: float

    @property
    def kind(self) -> str:
        """Class of the error, empty if there is none."""
        return str(self.said.get("error", {}).get("class", ""))

    @property
    def text(self) -> str:
        """All of it, for a failure's message."""
        return f"exit {self.code}: {json.dumps(self.said, ensure_ascii=False)[:2000]}"


class Process:
    """One process; it takes one command at a time.

    Args:
        log: where its standard error goes.
    """

    def __init__(self, log: IO[bytes]) -> None:
        command = [sys.executable, "-m", "tests.processes.serving"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        self._answers: list[str] = []
        self._came = threading.Condition()
        self._ended = False
        self._taken = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._next(ANSWER_SECONDS)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def send(self, *arguments: object) -> None:
        """Begin a command; ``--json`` is added."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([*map(str, arguments), "--json"]) + "\n")
        self._process.stdin.flush()

    def answer(self, seconds: float = ANSWER_SECONDS) -> Answer | None:
        """How the command ended; None if it has not, so far. Raises: ProcessLookupError: the process was killed."""
        line = self._next(seconds)
        if line is None:
            return None
        found = json.loads(line)
        try:
            said = json.loads(found["out"])
        except ValueError:
            raise AssertionError(f"exit {found['code']}, no JSON: {found['out']!r} {found['err'][-3000:]}") from None
        return Answer(found["code"], said, found["seconds"])

    def run(self, *arguments: object) -> Answer:
        """A whole command."""
        self.send(*arguments)
        found = self.answer()
        assert found is not None, f"no answer in {ANSWER_SECONDS} s: {arguments}"
        return found

    def kill(self) -> None:
        """kill -9, and collect it."""
        self._process.kill()
        self._process.wait()
        self._close()

    def stop(self) -> None:
        """Freeze it, wherever it is: all its threads, its heartbeat too."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on as if nothing had happened."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it in good order."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._close()

    def _close(self) -> None:
        self._reader.join(20)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._came:
                self._answers.append(line)
                self._came.notify_all()
        with self._came:
            self._ended = True
            self._came.notify_all()

    def _next(self, seconds: float) -> str | None:
        with self._came:
            self._came.wait_for(lambda: len(self._answers) > self._taken or self._ended, seconds)
            if len(self._answers) > self._taken:
                self._taken += 1
                return self._answers[self._taken - 1]
            if self._ended:
                raise ProcessLookupError(f"process {self.pid} has ended")
            return None


def options(**given: object) -> Sequence[str]:
    """``-o`` arguments; ``__`` stands for the dots of a name."""
    return [text for name, value in given.items() for text in ("-o", f"{name.replace('__', '.')}={value}")]
