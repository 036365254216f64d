"""Processes that run `lakeindex` commands, and what may happen to one meanwhile: killed, or stopped and continued."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.processes.serving import serve

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


_FORKING: Final = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.processes.serving"])


class Process:
    """One process; it takes one command at a time.

    Args:
        log: where its standard error goes.
    """

    def __init__(self, log: Path) -> None:
        self._commands, theirs = _FORKING.Pipe()
        self._process = _FORKING.Process(target=serve, args=(theirs, log), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def send(self, *arguments: object) -> None:
        """Begin a command; ``--json`` is added."""
        self._commands.send([*map(str, arguments), "--json"])

    def answer(self, seconds: float = ANSWER_SECONDS) -> Answer | None:
        """How the command ended; None if it has not, so far."""
        if not self._commands.poll(seconds):
            return None
        found = self._commands.recv()
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
        self.close()

    def stop(self) -> None:
        """Freeze it, wherever it is: all its threads, its heartbeat too."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on as if nothing had happened."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self._commands.close()
        self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def options(**given: object) -> Sequence[str]:
    """``-o`` arguments; ``__`` stands for the dots of a name."""
    return [text for name, value in given.items() for text in ("-o", f"{name.replace('__', '.')}={value}")]
