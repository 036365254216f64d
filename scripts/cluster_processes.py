"""Processes of the local cluster: started in a session of their own, known again by another process, ended whole.

What is known of them is in ``processes.json`` of the cluster's folder:
the id and the start time of each, so that a stranger that got an id later is never taken for one of ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

TAIL_BYTES: Final = 3000
_KILL_SECONDS: Final = 10
_STARTED: Final[list[subprocess.Popen[bytes]]] = []
"""Kept while this process lives: a Popen that is dropped while its process runs warns of it."""


class Processes:
    """The processes of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = folder / "processes.json"

    def launch(self, name: str, command: list[str], env: Mapping[str, str], **more: Any) -> None:
        """Start a process unless it is running; its output goes to its log."""
        if self.runs(name):
            return
        self.log_of(name).parent.mkdir(parents=True, exist_ok=True)
        with self.log_of(name).open("ab") as log:
            started = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **{"cwd": self.folder, **more},
            )
        _STARTED.append(started)
        self._write({**self._read(), name: [started.pid, psutil.Process(started.pid).create_time()]})

    def runs(self, name: str) -> bool:
        """Whether the process is there and no zombie."""
        return self.find(name) is not None

    def find(self, name: str) -> psutil.Process | None:
        """The process, if it is there."""
        known = self._read().get(name)
        if known is None:
            return None
        pid, created = known
        try:
            found = psutil.Process(pid)
            alive = found.create_time() == created and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return found if alive else None

    def log_of(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def tail_of(self, name: str) -> str:
        """The end of its log, with the log's name."""
        text = self.log_of(name).read_text(errors="replace")[-TAIL_BYTES:]
        return f"the end of {self.log_of(name)}:\n{text}"

    def end(self, names: Iterable[str], how: signal.Signals, patience_seconds: float) -> None:
        """Signal each process and its group, wait, and kill whatever of their trees is left."""
        trees: list[psutil.Process] = []
        for name in names:
            process = self.find(name)
            if process is not None:
                trees += [process, *_children(process)]
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, how)  # start_new_session made it the leader of its group
        _, left = psutil.wait_procs(trees, timeout=patience_seconds)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=_KILL_SECONDS)

    def _read(self) -> dict[str, tuple[int, float]]:
        return json.loads(self._state.read_text()) if self._state.exists() else {}

    def _write(self, known: Mapping[str, Any]) -> None:
        fresh = self._state.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(known))
        fresh.replace(self._state)  # whole or as it was: a full disk must not make us forget what runs


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
