"""Change a table's index type. A type that stores nothing costs nothing, a stored index is built,
BUCKET rewrites the table.

Whatever it is, the change has an instant: it is in force with a replacecommit, is checked against other writers like
any commit, and goes back with a rollback or restore of that instant. Before a global index, keys are proven to be
unique in the whole table, and after one rows to lie where their columns say.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from lakeindex.catalogs.syncing import sync_after
from lakeindex.conductor.open_for_write import open_and_retry, retry_on_conflict
from lakeindex.errors import TableCorruptError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.key_columns import read_record_keys
from lakeindex.frozen import Frozen
from lakeindex.index.bucket_options import layout_of
from lakeindex.index.registry import built_index_for
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.operations.check_base_files import UniqueTask, check_unique, hashes_of, save_hashes
from lakeindex.operations.index import opened_index
from lakeindex.operations.rescale import check_no_buckets, migrate_to_buckets, switch_index
from lakeindex.operations.rescale_run import check_places
from lakeindex.options.option_table import BY_KEY
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.run.index.in_metadata import is_in_metadata, metadata_store
from lakeindex.showing.json_result import TableResult
from lakeindex.showing.json_values import json_of
from lakeindex.table.binding import new_index
from lakeindex.table.handle import Table
from lakeindex.table.refusals import check_virtual_index
from lakeindex.table.table_columns import table_schema, virtual_keys
from lakeindex.tasks.runner import Runner


class IndexMigrated(TableResult):
    """A table that has another index now.

    Attributes:
        before: the index it had.
        index_type: the index it has.
        index_options: what is bound with it.
        instant: the replacecommit that put it into force; None if the table had it already, or nothing was to be done.
        noop: nothing was changed.
        dry_run: nothing was to be changed.
        rows_built: keys that went into a store.
        files_rewritten: file groups that were rewritten.
        rows_rewritten: rows in them, proven equal to those before.
        keys_checked: keys that were proven to be unique in the whole table.
        seconds: wall time.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_index_migrated"

    before: str
    index_type: str
    index_options: Mapping[str, str]
    instant: str | None
    noop: bool
    dry_run: bool
    rows_built: int
    files_rewritten: int
    rows_rewritten: int
    keys_checked: int
    seconds: float
    notes: tuple[str, ...] = ()


_DROP: Final = (
    "nothing was changed: `lakeindex metadata drop TABLE --partition record_index` takes it away, and the migration "
    "builds the index then"
)


class _Done(Frozen):
    """What a migration did."""

    instant: str | None = None
    rows_built: int = 0
    files_rewritten: int = 0
    rows_rewritten: int = 0
    keys_checked: int = 0


class _Switch(Frozen):
    """A change of the index that leaves the files as they are."""

    table: Table
    before: IndexSpec
    target: IndexSpec
    pairs: Mapping[str, str]
    force: bool


def migrate_index(
    uri: str,
    index_type: IndexType,
    runner: Runner,
    checkpoints: str,
    *,
    options: Mapping[str, str] | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> IndexMigrated:
    """Give a table another index.

    Args:
        checkpoints: where a folder for working data may be made.
        options: ``hoodie.*`` and ``lakeindex.*`` options; those that are bound with the index are bound anew.

    Raises:
        OptionError: an option that has no meaning with the index; or a row lies in another partition than its columns
            say, as a global index may leave it, and the new one would not find it.
        TableCorruptError: a key is not unique in the whole table, which a global index needs; nothing was changed.
        WriteConflictError: others kept writing; nothing was changed.
    """
    started = time.perf_counter()
    pairs = {key: text for key, text in (options or {}).items() if key != "hoodie.index.type"}
    plain = _plain(pairs)
    table, before = open_and_retry(uri, plain, lambda opened: (opened.table, opened.index))
    target = new_index(index_type, parse_options(pairs), table.properties.key_fields)
    check_virtual_index(table.properties, index_type)
    done, notes = _Done(), list[str]()
    if target != before and index_type is IndexType.BUCKET and before.index_type is not IndexType.BUCKET:
        rewritten = migrate_to_buckets(uri, layout_of(target), runner, config=plain, dry_run=dry_run, force=force)
        done = _Done(rewritten.instant, 0, rewritten.files_replaced, rewritten.rows)
        notes += rewritten.notes
    elif target != before:
        switch = _Switch(table, before, target, pairs, force)

        def work(snapshot: Snapshot) -> tuple[IndexSpec, _Done]:
            return _switch(switch, snapshot, runner, checkpoints, dry_run=dry_run, notes=notes)

        before, done = retry_on_conflict(table, plain, work)
    if done.instant is not None:
        notes += sync_after(uri, plain)
    return IndexMigrated(
        table=table.name,
        uri=table.uri,
        before=before.index_type.value,
        index_type=target.index_type.value,
        index_options=dict(target.options),
        noop=target == before,
        dry_run=dry_run,
        seconds=round(time.perf_counter() - started, 4),
        notes=tuple(notes),
        **json_of(done),
    )


def _plain(pairs: Mapping[str, str]) -> WriteConfig:
    """The options that are not bound with an index: those are the new one's, the table still has the old one."""
    return parse_options({key: text for key, text in pairs.items() if key not in BY_KEY or not BY_KEY[key].bound_with})


def _switch(
    switch: _Switch, snapshot: Snapshot, runner: Runner, checkpoints: str, *, dry_run: bool, notes: list[str]
) -> tuple[IndexSpec, _Done]:
    """Prove, build, put into force: all against one snapshot. Files stay as they are, and with them every row.

    Returns:
        The index that the table had on the snapshot, and what was done.
    """
    table, target = switch.table, switch.target
    check_no_buckets(target)
    before = table.index(snapshot.timeline) or switch.before  # another run may have changed it since
    if before == target:
        return before, _Done()
    if before.is_global is not target.is_global:
        snapshot.check_whole(None, every=True)  # what is there proves nothing of a slice that is lost
    checked = _check_unique(table, snapshot) if target.is_global and not before.is_global else 0
    if before.is_global and not target.is_global:
        check_places(table, snapshot)
    index = built_index_for(target)
    is_there = index is not None and is_in_metadata(table.storage, index)
    if index is not None and is_there:
        metadata_store(table, snapshot.timeline, index).check_form(hint=_DROP)
    if dry_run:
        return before, _Done(keys_checked=checked)
    rows = 0
    if index is not None and not is_there:
        with opened_index(table, snapshot, target, runner, checkpoints, switch.pairs) as opened:
            rows = opened.session.build(snapshot).rows
    instant = switch_index(table, snapshot, target, _plain(switch.pairs), force=switch.force, notes=notes)
    return before, _Done(instant=instant, rows_built=rows, keys_checked=checked)


def _check_unique(table: Table, snapshot: Snapshot) -> int:
    """Prove that no key is stored twice in the whole table; how many there are.

    Raises:
        TableCorruptError: one is.
    """
    files = snapshot.base_files_all()
    virtual = virtual_keys(table, table_schema(table, snapshot))
    rows = 0
    with tempfile.TemporaryDirectory(prefix="lakeindex-migrate-") as folder:
        hashed: list[tuple[BaseFile, Path]] = []
        for number, file in enumerate(files):
            keys = read_record_keys(table.storage, file, virtual)
            rows += len(keys)
            path = Path(folder) / f"{number}.npy"
            save_hashes(path, [hashes_of(keys)])
            hashed.append((file, path))
        found = check_unique(UniqueTask(table.uri, "the table", tuple(hashed), virtual))
    for violation in found.violations:
        raise TableCorruptError(
            f"a global index needs keys that are unique in the whole table: {violation.message}",
            culprit=violation.culprit,
            hint="take an index that is unique in each partition, or delete the rows of the other partitions: a delete "
            "of keys with their partition columns leaves the others; copies in one partition: `lakeindex repair keys`",
        )
    return rows
