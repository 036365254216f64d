"""Progress of long work: bars on a terminal, nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console


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
        """See :class:`Progress`."""
        yield _nothing


class TerminalProgress:
    """A bar a step, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        """See :class:`Progress`."""
        import rich.progress  # jobs have no terminal

        columns = (
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeElapsedColumn(),
        )
        with rich.progress.Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda: bar.advance(task)


def progress_for(console: Console) -> Progress:
    """Bars if the console is a terminal, silence if not."""
    return TerminalProgress(console) if console.is_terminal else NoProgress()
