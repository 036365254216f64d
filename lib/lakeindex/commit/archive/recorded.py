"""What an archive says before something is put into it."""

from __future__ import annotations

from dataclasses import dataclass

from lakeindex.errors import FencedError


@dataclass(frozen=True, slots=True)
class Recorded:
    """The newest part of an archive.

    Attributes:
        instants: time and action of completed instants in it. One that is on the timeline, too, was left there by who
            archived it and was killed.
        number: of the newest log file or manifest; what is archived next gets the number behind it.
    """

    instants: frozenset[tuple[str, str]]
    number: int


def overtaken(path: str) -> FencedError:
    """The error of who archives while another writer does."""
    return FencedError(
        f"{path} was written by another writer meanwhile",
        culprit=path,
        hint="run again: what is archived already is left alone",
    )
