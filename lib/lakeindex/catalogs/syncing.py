"""A sync of a table with the catalogs that options name, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import ClassVar

from lakeindex.catalogs.places import open_catalog
from lakeindex.catalogs.sync import Sync, SyncDone
from lakeindex.catalogs.wanted import Truth, look, name_of
from lakeindex.errors import OptionError, noted
from lakeindex.model import SYNC_OPTION
from lakeindex.options.parse import parse_options
from lakeindex.options.sync_options import CatalogKind, SyncOptions
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import JsonResult, TableResult
from lakeindex.table.handle import Table

_SHOWN = 100


class CatalogSynced(JsonResult):
    """What a sync did to a catalog, or would do.

    Attributes:
        catalog: ``glue`` or ``hive``.
        name: database and table there.
        instant: the newest commit that the catalog knows now.
        agrees: nothing was to be done.
        created: the table was not there.
        altered: what of its entry was otherwise, a sentence each.
        added: partitions that it lacked.
        moved: partitions that it had at another place, or with other columns than the table's.
        dropped: partitions that it had and the table has not.
        partitions: paths or values of the first hundred of these.
        strange: partitions that it has at places outside of the table; they stay.
        requests: calls of the catalog.
        seconds: wall time.
    """

    catalog: str
    name: str
    instant: str | None
    agrees: bool
    created: bool
    altered: tuple[str, ...]
    added: int
    moved: int
    dropped: int
    partitions: tuple[str, ...]
    strange: int
    requests: int
    seconds: float


class SyncSummary(TableResult):
    """What a sync did, or with ``check`` would do.

    Attributes:
        checked: nothing was written, the table and the catalogs were compared.
        catalogs: what was done to each.
    """

    shown_by: ClassVar[str] = "results:show_sync"

    checked: bool
    catalogs: tuple[CatalogSynced, ...]

    @property
    def agrees(self) -> bool:
        return all(one.agrees for one in self.catalogs)


def sync_table(
    uri: str,
    config: WriteConfig | None = None,
    *,
    catalogs: Sequence[str] = (),
    check: bool = False,
    all_partitions: bool = False,
) -> SyncSummary:
    """Make catalogs agree with a table.

    Args:
        catalogs: ``glue``, ``hive``; by default those of ``lakeindex.sync``.
        check: write nothing, compare the whole.
        all_partitions: compare all partitions, not only those of commits since the last sync.

    Raises:
        OptionError: no catalog is named, or one that there is not.
        TableExistsError: another table has the name there.
        SchemaMismatchError: a change of a column that a catalog cannot hold.
        AccessDeniedError, CatalogError: of a catalog.
    """
    given = config or parse_options({})
    options = given.of(SyncOptions)
    kinds = tuple(map(_kind, catalogs)) or options.catalogs
    if not kinds:
        raise OptionError(
            "no catalog is named", culprit=SYNC_OPTION, hint=f"give --catalog glue, or -o {SYNC_OPTION}=glue"
        )
    table = Table.at(uri, use_metadata=given.use_metadata)
    done = tuple(_synced(table, kind, options, check=check, every=all_partitions) for kind in dict.fromkeys(kinds))
    return SyncSummary(table.name, table.uri, check, done)


def sync_after(uri: str, config: WriteConfig) -> tuple[str, ...]:
    """Let the catalogs of ``lakeindex.sync`` know of what was committed, or rolled back; notes on what went wrong."""
    notes: tuple[str, ...] = ()
    for kind in config.of(SyncOptions).catalogs:
        notes += noted(
            f"the catalog {kind} does not know the commit yet; the next sync tells it",
            partial(sync_table, uri, config, catalogs=(kind,)),
        )
    return notes


def lineage_names(uri: str, config: WriteConfig) -> tuple[tuple[str, str], ...]:
    """Namespace and name, by OpenLineage's specification, that the catalogs of ``lakeindex.sync`` have a table under.

    Raises:
        LakeIndexError: a catalog does not answer, or there is no table.
    """
    options, found = config.of(SyncOptions), []
    for kind in options.catalogs:
        with closing(open_catalog(kind, options)) as catalog:
            held = catalog.table(*name_of(Table.at(uri), options))
            found += [catalog.lineage_name(held)] if held is not None else []
    return tuple(found)


def _kind(name: str) -> CatalogKind:
    try:
        return CatalogKind(name.lower())
    except ValueError:
        raise OptionError(
            f"there is no catalog {name!r}", culprit=name, hint=f"valid: {', '.join(CatalogKind)}"
        ) from None


def _synced(table: Table, kind: CatalogKind, options: SyncOptions, *, check: bool, every: bool) -> CatalogSynced:
    started = time.perf_counter()
    catalog = open_catalog(kind, options)
    name = name_of(table, options)

    def now() -> Truth:
        return look(table.reload(), options, kind)

    with closing(catalog):
        sync = Sync(catalog, name, now, options, all_partitions=every)
        done = sync.check() if check else sync.run()
    changed = (len(done.added), len(done.moved), len(done.dropped))
    return CatalogSynced(
        catalog=kind.value,
        name=".".join(name),
        instant=done.instant,
        agrees=not (done.created or done.altered or any(changed) or done.strange),
        created=done.created,
        altered=tuple(done.altered),
        added=changed[0],
        moved=changed[1],
        dropped=changed[2],
        partitions=_shown(done),
        strange=len(done.strange),
        requests=catalog.requests,
        seconds=round(time.perf_counter() - started, 4),
    )


def _shown(done: SyncDone) -> tuple[str, ...]:
    values = [one.values for one in (*done.added, *done.moved)] + [*done.dropped]
    return tuple("/".join(one) for one in values[:_SHOWN])
