"""Before publishing, under the lock: was one of the keys we insert committed by somebody else meanwhile?

Two writers that insert one new key touch different file groups, so a conflict check by file group lets both pass and
the key is doubled. Only files committed since the snapshot are looked at, range and filter first.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeindex.errors import WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_pruning import rows_that_may_be_in
from lakeindex.files.key_columns import StoredColumns
from lakeindex.index.contract import FileGroups, KeyHomes
from lakeindex.index.key_match import match_keys
from lakeindex.model import BaseFile, Group
from lakeindex.run.chunks import Chunk, chunk_keys, unpack_rows_of
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.stages.merge_write.tags import NewRows
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY


def find_committed_inserts(
    spec: RunSpec, facts: TableFacts, chunks: Sequence[Chunk], new_rows: Sequence[NewRows], files: Sequence[BaseFile]
) -> None:
    """Look for our new keys in files of other writers.

    Args:
        new_rows: rows that are about to be inserted.
        files: base files committed since the snapshot.

    Raises:
        WriteConflictError: one of the keys is there now.
    """
    for file in files:
        for new in new_rows:
            if facts.is_global or new.partition == file.partition_path:
                _check_file(spec, facts, file, keys_of(spec, chunks[new.chunk], new))


def find_committed_homes(
    homes: KeyHomes, new_rows: Sequence[NewRows], snapshot: Snapshot, files: Sequence[BaseFile]
) -> None:
    """Look for file groups that other writers made for the homes that we make file groups for: a bucket has one.

    Args:
        homes: where new rows go.
        new_rows: rows that are about to be inserted.
        snapshot: what the plan was made on.
        files: base files committed since.

    Raises:
        WriteConflictError: there is one.
    """
    made = _groups_of(files)
    for partition, home in sorted({(new.partition, new.home) for new in new_rows}):
        if partition not in made:
            continue
        before = _groups_of(snapshot.base_files(partition)).get(partition, FileGroups({}))
        group = homes.group_of(partition, home, made[partition])
        if group is not None and homes.group_of(partition, home, before) is None:
            raise WriteConflictError(
                f"file group {group[1]} was made meanwhile in {partition!r}, "
                "where this batch makes one for the same bucket",
                culprit=group[1],
                hint="the batch is looked up and planned again",
            )


def _groups_of(files: Sequence[BaseFile]) -> dict[str, FileGroups]:
    groups: dict[str, dict[Group, int]] = {}
    for number, file in enumerate(files):
        groups.setdefault(file.partition_path, {})[file.partition_path, file.file_id] = number
    return {partition: FileGroups(found) for partition, found in groups.items()}


def keys_of(spec: RunSpec, chunk: Chunk, new: NewRows) -> pa.Array:
    """Record keys of new rows of a chunk, sorted: string [n]."""
    folder = run_folder(spec)
    keys = chunk_keys(folder, chunk)
    for record in folder.read_table(new.part).to_pylist():
        if (record["chunk"], record["partition"], record["home"]) == new.key:
            return keys.take(pa.array(unpack_rows_of(chunk, record["rows"])))
    return keys.slice(0, 0)


def _check_file(spec: RunSpec, facts: TableFacts, file: BaseFile, keys: pa.Array) -> None:
    store = storage_at(spec.table_uri)
    rows = rows_that_may_be_in(store, file, keys)
    if not len(rows):
        return
    columns = StoredColumns(store, file, facts.virtual)
    match = match_keys(keys.take(pa.array(rows)), columns.column(RECORD_KEY, columns.row_groups))
    if len(match.candidate):
        key = keys[int(rows[int(match.candidate[0])])].as_py()
        raise WriteConflictError(
            f"key {key!r}, new when this batch was looked up, was committed meanwhile in {file.path!r}",
            culprit=file.path,
            hint="the batch is looked up and planned again",
        )
