"""Progress of long work: bars on a terminal, nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


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
    """A bar a step on stderr, a terminal."""

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        """See :class:`Progress`."""
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
