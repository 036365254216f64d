"""Progress of long work: bars on a terminal and in a notebook, nothing otherwise."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from html import escape
from importlib import import_module
from typing import Any, Final, Literal, Protocol, TypeAlias

from lakeindex.errors import UsageError

_UNSEEN: Final = ("CI", "AIRFLOW_CTX_DAG_ID")
"""Variables of environments in which nobody looks at a bar, whatever the output is."""
_LATE_SECONDS: Final = 0.5
_EACH_SECONDS: Final = 0.2


class Progress(Protocol):
    """Told about each map of tasks."""

    def step(self, title: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        """Enter a step of ``total`` tasks; call what it gives once a finished task."""


def _nothing() -> None:
    return


class NoProgress:
    """Says nothing."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:  # noqa: ARG002 - the protocol's arguments
        yield _nothing


class TerminalProgress:
    """A bar a step on stderr, a terminal."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        import rich.console
        import rich.progress

        columns = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
        )
        with rich.progress.Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda: bar.advance(task)


class NotebookProgress:
    """A bar a step below the cell, which goes with the step."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        ipython: Any = import_module("IPython.display")
        done, shown = 0, time.monotonic()
        bar = ipython.display(ipython.HTML(_bar(title, done, total)), display_id=True)

        def advance() -> None:
            nonlocal done, shown
            done += 1
            if time.monotonic() - shown >= _EACH_SECONDS:
                shown = time.monotonic()
                bar.update(ipython.HTML(_bar(title, done, total)))

        try:
            yield advance
        finally:
            bar.update(ipython.HTML(""))


def _bar(title: str, done: int, total: int) -> str:
    return f'{escape(title)} <progress value="{done}" max="{total}"></progress> {done:,}/{total:,}'


class LateProgress:
    """Another progress, as soon as work has taken ``after`` seconds: what is done in a moment shows nothing."""

    def __init__(self, shown: Progress, after: float = _LATE_SECONDS) -> None:
        self._shown = shown
        self._from = time.monotonic() + after

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        with ExitStack() as stack:
            bar: Callable[[], None] | None = None
            done = 0

            def look() -> None:
                nonlocal bar
                if bar is None and time.monotonic() >= self._from:
                    bar = stack.enter_context(self._shown.step(title, total))
                    for _ in range(done):
                        bar()

            def advance() -> None:
                nonlocal done
                if bar is not None:
                    bar()
                done += 1
                look()

            look()
            yield advance


ProgressChoice: TypeAlias = Progress | Literal[False] | None
"""What receives the progress of the steps; False: nothing; None: bars in a notebook and on a terminal, for work of
more than half a second."""


def progress_of(choice: ProgressChoice) -> Progress:
    """What receives the progress. None is a bar where a person looks, not on a pipe, in a task of Airflow or in CI.

    Raises:
        UsageError: it cannot receive any.
    """
    if choice is not None and choice is not False:
        if not callable(getattr(choice, "step", None)):
            hint = "say False (no bars), leave it out, or give an object with the method step"
            raise UsageError(f"progress cannot be {choice!r}", culprit="progress", hint=hint)
        return choice
    if choice is False or any(os.environ.get(name) for name in _UNSEEN):
        return NoProgress()
    if _in_notebook():
        return LateProgress(NotebookProgress())
    return LateProgress(TerminalProgress()) if is_terminal(sys.stderr) else NoProgress()


def is_terminal(stream: Any) -> bool:
    """Whether a stream is one. A program may have none, a closed one, or one of its own that is only written to."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
