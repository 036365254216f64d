"""The tables below a folder, and what their properties and timelines say of them: no base file is read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Final

from lakeindex.catalogs.places import is_catalog_url, located_tables
from lakeindex.errors import InputError, LakeIndexError, OptionError, in_our_words
from lakeindex.frozen import Frozen
from lakeindex.model import Instant
from lakeindex.operations.look.history import iso_time
from lakeindex.pipeline import KEPT_ENDING, RUNS_ENDING
from lakeindex.showing.json_result import JsonResult
from lakeindex.storage import Listing, Storage, in_parallel
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline

DEPTH: Final = 3
MOST_FOLDERS: Final = 1_000
"""Folders that one call lists."""

_TABLE: Final = ".hoodie"
_OTHER_TABLES: Final = ({"_delta_log"}, {"metadata", "data"})
"""A folder with these is a table of another format, Delta or Iceberg: what is below it are its files."""


class Health(StrEnum):
    """What properties and timeline say; whether the files are right, ``check`` says."""

    OK = "ok"
    ATTENTION = "attention"
    BROKEN = "broken"


class FoundTable(Frozen):
    """A table; what is not known is None.

    Attributes:
        uri: where it is.
        health: ``ok``: nothing below is to be said; ``attention``: a finding; ``broken``: it cannot be opened.
        findings: what is to be said, a sentence each.
        name: the table's name.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        version: table version.
        index_type: the index in force; None until the first write binds one.
        last_commit: newest completed write.
        last_commit_time: the same as ISO time.
        pending: instants that have not completed.
        metadata_partitions: partitions of its metadata table.
        files: live base files; only with ``size``.
        bytes: their size; only with ``size``.
    """

    uri: str
    health: Health
    findings: tuple[str, ...]
    name: str | None = None
    table_type: str | None = None
    version: int | None = None
    index_type: str | None = None
    last_commit: str | None = None
    last_commit_time: str | None = None
    pending: int | None = None
    metadata_partitions: tuple[str, ...] = ()
    files: int | None = None
    bytes: int | None = None


class TablesFound(JsonResult):
    """The tables below a folder.

    Attributes:
        uri: the folder.
        tables: by their place.
        folders: folders that were listed to find them.
        complete: whether every folder was listed; otherwise ``skipped`` says how many were not, at least.
        skipped: folders that lie deeper, or were one too many.
    """

    shown_by: ClassVar[str] = "facts:show_tables"

    uri: str
    tables: tuple[FoundTable, ...]
    folders: int
    complete: bool
    skipped: int


def find_tables(uri: str, *, depth: int = DEPTH, size: bool = False) -> TablesFound:
    """Look for tables, level by level; in the database of a catalog (``glue://database``): by their entries.

    A folder with ``.hoodie`` is a table, and is not looked into. Nor are hidden folders, run folders
    (``*.lakeindex``), folders of partitions (``name=value``) and tables of other formats.

    Args:
        uri: a folder, a table, or the database of a catalog.
        depth: how many levels below it tables may be.
        size: count live files, too: as the metadata table names them, else by listing the folder of every partition.

    Raises:
        OptionError: a depth below 0.
        InputError: there is nothing.
    """
    if depth < 0:
        raise OptionError(f"depth cannot be {depth}", culprit="depth", hint="valid: 0 or more")
    if is_catalog_url(uri):
        places = located_tables(uri)
        return TablesFound(uri, tuple(in_parallel("", lambda at: _look_at(at, size=size), places)), 0, True, 0)
    root = absolute(uri).rstrip("/") or "/"
    found, listed, skipped = _places(storage_at(root), depth)
    places = [f"{root}/{path}" if path else root for path in sorted(found)]
    tables = in_parallel(root, lambda place: _look_at(place, size=size), places)
    return TablesFound(root, tuple(tables), listed, skipped == 0, skipped)


def _places(storage: Storage, depth: int) -> tuple[list[str], int, int]:
    """Paths of tables; how many folders were listed; how many were not."""
    found: list[str] = []
    listed = skipped = 0
    level = [""]
    for below in range(depth + 1):
        now, late = level[: MOST_FOLDERS - listed], level[MOST_FOLDERS - listed :]
        listed, skipped = listed + len(now), skipped + len(late)
        listings = in_parallel(storage.uri, storage.list_folder, now)
        if below == 0 and not listings[0].folders and not listings[0].objects:
            raise InputError(
                f"there is nothing at {storage.uri}",
                culprit=storage.uri,
                hint="name a folder that holds tables; its store's credentials come from the environment",
            )
        found += [path for path, listing in zip(now, listings, strict=True) if _TABLE in _names(listing)]
        level = [path for listing in listings for path in _folders_to_list(listing)]
    return found, listed, skipped + len(level)


def _names(listing: Listing) -> set[str]:
    return {path.rstrip("/").rpartition("/")[2] for path in listing.folders}


def _folders_to_list(listing: Listing) -> list[str]:
    names = _names(listing)
    if _TABLE in names or any(theirs <= names for theirs in _OTHER_TABLES):
        return []
    paths = [path.rstrip("/") for path in listing.folders]
    return [path for path in paths if not _is_no_place(path.rpartition("/")[2])]


def _is_no_place(name: str) -> bool:
    return name.startswith((".", "_")) or name.endswith((RUNS_ENDING, KEPT_ENDING)) or "=" in name


def _look_at(uri: str, *, size: bool) -> FoundTable:
    """Examine one table; of a broken one the result says why, and nothing is raised."""
    try:
        table = Table.at(uri)
        timeline = table.load_timeline()
        index, last = table.index(timeline), timeline.last_completed_write_time
        live = table.snapshot(timeline=timeline).base_files_all() if size else None
        findings = tuple(_findings(table, timeline))
    except (LakeIndexError, OSError, ValueError, KeyError) as error:
        known = error if isinstance(error, LakeIndexError) else in_our_words(error)
        text = f"{known.message} ({known.hint})" if known is not None else f"{type(error).__name__}: {error}"
        return FoundTable(uri, Health.BROKEN, (text,))
    properties = table.properties
    return FoundTable(
        uri=uri,
        health=Health.ATTENTION if findings else Health.OK,
        findings=findings,
        name=table.name,
        table_type=properties.table_type,
        version=properties.version,
        index_type=None if index is None else str(index.index_type),
        last_commit=last,
        last_commit_time=None if last is None else iso_time(table, last),
        pending=len(timeline.pending),
        metadata_partitions=properties.metadata_partitions,
        files=None if live is None else len(live),
        bytes=None if live is None else sum(file.size_bytes for file in live),
    )


def _findings(table: Table, timeline: Timeline) -> list[str]:
    found = []
    try:
        table.check_writable()
        timeline.check_known()
    except LakeIndexError as error:
        found.append(f"lakeindex does not write to it: {error.message} ({error.hint})")
    if timeline.pending:
        found.append(f"pending: {_named(table, timeline.pending)}; a writer is at work, or ended before its time")
    view = table.metadata_view(timeline)
    untold = () if view is None else view.untold_writes()
    if untold:
        count = f"{len(untold):,} commits, the first of them {untold[0]}"
        found.append(
            f"its metadata table is stale: it does not know of {count} (`lakeindex metadata drop`, then build)"
        )
    if table.binding is None and timeline.completed_writes:
        found.append("no index is bound: the first write of lakeindex binds one")
    return found


def _named(table: Table, pending: Sequence[Instant]) -> str:
    """How many there are, and the oldest of them."""
    oldest = pending[0]
    when = iso_time(table, oldest.time) or oldest.time
    more = f", and {len(pending) - 1:,} more" if len(pending) > 1 else ""
    return f"{oldest.action} {oldest.time} ({oldest.state.value}, since {when}){more}"
