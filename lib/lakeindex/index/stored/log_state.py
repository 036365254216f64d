"""What a change log says: deltas, what was built, and which files of the table an index covers by them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lakeindex.errors import IndexChangedError, IndexDamagedError, first_line
from lakeindex.format.instants import comparable
from lakeindex.index.stored.store_context import NOTHING_COMPLETED, Completed, LogView
from lakeindex.model import Group

META: Final = b"lakeindex"
SUFFIX: Final = ".parquet"
_CAUGHT_UP: Final = ".c-"
BEFORE_ALL: Final = "0" * 17
"""Instant of a delta that was read from a table without any commit; in force by itself."""


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A base file whose keys are in the index.

    Attributes:
        replaces: in a commit's delta, the file of the group before it, from which the delta says what changed.
    """

    partition_path: str
    file_id: str
    name: str
    rows: int
    replaces: str | None = None

    @property
    def group(self) -> Group:
        """Its file group."""
        return self.partition_path, self.file_id


@dataclass(frozen=True, slots=True)
class Delta:
    """What is known of a delta without its rows.

    Attributes:
        name: its name in the log.
        files: files that it covers.
        gone: file groups that are no more.
        resets: file groups whose keys are all in it: what was known of them before does not count any more.
        inserted: keys it adds, as far as that is known.
    """

    name: str
    files: tuple[CoveredFile, ...] = ()
    gone: tuple[Group, ...] = ()
    resets: tuple[Group, ...] = ()
    inserted: int = 0
    removed: int = 0

    @property
    def instant(self) -> str:
        """The instant that puts it into force."""
        return instant_of(self.name)

    @property
    def is_catch_up(self) -> bool:
        """Whether it was read from files of commits that were there already."""
        return _CAUGHT_UP in self.name


@dataclass(frozen=True, slots=True)
class Built:
    """What was built.

    Attributes:
        number: counts up; the greatest is in force.
        generation: names the store's content.
        files: files it covers.
        folded: deltas that are part of it.
    """

    number: int
    generation: str
    files: tuple[CoveredFile, ...]
    folded: frozenset[str]
    rows: int


@dataclass(frozen=True)
class LogState:
    """The log at one look.

    Attributes:
        built: what was built; None if nothing was.
        in_force: deltas that count beside it, in order.
        doubtful: names of deltas whose instants are not completed: pending, or failed.
        coverage: the live file of each covered file group.
        broken: file groups of which a delta is missing in between: entries of them do not count any more.
        unreadable: deltas in force that are damaged; without them, their file groups are not covered.
        names: all deltas that are there.
        numbers: numbers of all that was ever built, as far as it is there, readable or not.
        completed: which instants count.
    """

    folder: str
    built: Built | None
    in_force: tuple[Delta, ...] = ()
    doubtful: tuple[str, ...] = ()
    coverage: Mapping[Group, CoveredFile] = field(default_factory=dict)
    broken: tuple[Group, ...] = ()
    unreadable: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    completed: Completed = NOTHING_COMPLETED

    @property
    def next_number(self) -> int:
        """The number to build under."""
        return max(self.numbers, default=0) + 1

    @property
    def view(self) -> LogView:
        """What tasks need of it."""
        generation = self.built.generation if self.built is not None else None
        return LogView(self.folder, generation, tuple(d.name for d in self.in_force))

    @property
    def covered_through(self) -> str | None:
        """The newest instant whose files are covered."""
        instants = [d.instant for d in self.in_force]
        instants += [f.name.rpartition("_")[2].removesuffix(SUFFIX) for f in self.coverage.values()]
        return max(instants, key=comparable, default=None)

    @property
    def rows(self) -> int:
        """Rows of all covered files: how many keys the index has to hold."""
        return sum(f.rows for f in self.coverage.values())


def instant_of(name: str) -> str:
    """The instant that puts a delta into force."""
    return name.partition(_CAUGHT_UP)[0]


def catch_up_name(instant: str | None, names: Iterable[str]) -> str:
    """A new name of a delta that was read from files of commits up to an instant;
    it comes after all deltas of that instant.

    Args:
        instant: the newest completed write; None if there is none.
        names: deltas that are there.
    """
    at = instant or BEFORE_ALL
    numbers = (n.partition(_CAUGHT_UP)[2].partition("-")[0] for n in names if instant_of(n) == at)
    number = max((int(n) for n in numbers if n.isdecimal()), default=0) + 1
    return f"{at}{_CAUGHT_UP}{number:06d}-{uuid.uuid4().hex[:12]}"


def new_generation(number: int) -> str:
    """A name of what is built under a number."""
    return f"{number:08d}-{uuid.uuid4().hex[:12]}"


def number_of(generation: str) -> int:
    """The number that a generation was built under; 0 if its name has none."""
    number = generation.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def place_of(name: str) -> tuple[str, str]:
    """Order of deltas: by instant, each followed by what was read from files after it."""
    instant = instant_of(name)
    return comparable(instant), name.removeprefix(instant)


def coverage_of(built: Built, deltas: Sequence[Delta]) -> tuple[dict[Group, CoveredFile], tuple[Group, ...]]:
    """Covered files, and file groups whose chain of deltas is broken."""
    covered = {f.group: f for f in built.files}
    broken: set[Group] = set()
    for delta in deltas:
        for group in delta.gone:
            covered.pop(group, None)
            broken.discard(group)
        whole = set(delta.resets)
        for file in delta.files:
            known = covered.get(file.group)
            if file.group in whole or (None if known is None else known.name) == file.replaces:
                covered[file.group] = file
                broken.discard(file.group)
            else:
                covered.pop(file.group, None)
                broken.add(file.group)
    return covered, tuple(sorted(broken))


def delta_of(name: str, path: str, metadata: Mapping[bytes, bytes] | None) -> Delta:
    """A delta from its file's metadata. Raises: IndexDamagedError."""
    try:
        found: dict[str, Any] = json.loads((metadata or {})[META])
        return Delta(
            name,
            tuple(CoveredFile(*one) for one in found["files"]),
            tuple((one[0], one[1]) for one in found["gone"]),
            tuple((one[0], one[1]) for one in found["resets"]),
            found["inserted"],
            found["removed"],
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise damaged(path, error) from error


def damaged(path: str, error: Exception) -> IndexDamagedError:
    """The error that says that a file of an index cannot be read."""
    return IndexDamagedError(
        f"{path} of the index cannot be read: {first_line(error)}",
        culprit=path,
        hint="build the index anew: lakeindex index build TABLE",
    )


def changed(path: str) -> IndexChangedError:
    """The error that says that others took a file of an index away since it was listed."""
    return IndexChangedError(
        f"{path} of the index was folded or taken back by another writer since it was listed",
        culprit=path,
        hint="run it again: the index is as complete without it",
    )
