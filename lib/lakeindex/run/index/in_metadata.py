"""The index that the metadata table keeps of a table, Hudi's record index, where the table has one.

It is a store of locations without a change log. Nothing is built, applied or caught up, and it is not told of a
commit: committing keeps it up. It is believed if the metadata table was told of every commit, and if its form is that
of the table's index: a record for a key in the whole table, or in each partition. A partition of the table that has
files and no file group in a partitioned index is damage, not a partition without keys.

Our own store of the same type is neither asked then, nor told. If the partition is dropped, that store lacks what was
committed meanwhile; it sees that by the names of the files, and reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from lakeindex.errors import IndexChangedError, MetadataTableError, ObjectNotFoundError, OptionError, TableCorruptError
from lakeindex.format.instants import REPLACE_COMMIT
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray
from lakeindex.index.locations.store_context import NOTHING_COMPLETED, LogView
from lakeindex.index.locations.stored_index import Found, StoredIndex
from lakeindex.metadata.metadata_changes import is_partitioned
from lakeindex.metadata.metadata_table import RECORD_INDEX, MetadataTable
from lakeindex.metadata.metadata_view import USE_METADATA_OPTION, MetadataView
from lakeindex.metadata.record_index import find_locations
from lakeindex.metadata_upkeep.index_entries import (
    BUILD_ANEW,
    COPY,
    WrongEntry,
    may_be_wrong,
    refusal,
    wrong_entries,
)
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.run.index.index_session import AskedBatch, IndexSession, StoreRef
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.properties import load_table_properties
from lakeindex.tasks.runner import Runner
from lakeindex.timeline.timeline import Timeline

_TRIES: Final = 5
_SCOPES: Final = ("each partition", "the whole table")


class MetadataRecordStore(Frozen):
    """Locations of record keys.

    Attributes:
        by_partition: keys are unique in their partition only.
        now: the metadata table as the table's properties say now.
    """

    view: MetadataView
    by_partition: bool
    now: Callable[[], MetadataTable | None]

    def check(self, partitions: Iterable[str]) -> None:
        """Make sure that it can answer; done within :meth:`refusing_if_dropped`.

        Raises:
            MetadataTableError: its form is not that of the table's index, or it was not kept up.
            TableCorruptError: it is damaged.
        """
        self.view.check_told()
        groups = self.view.slices(RECORD_INDEX)
        wanted = frozenset(partitions)
        self.check_form("`lakeindex index migrate` changes the table's index, or " + BUILD_ANEW)
        if self.by_partition:
            missing = next((one for one in sorted(wanted) if not any(group.is_of(one) for group in groups)), None)
            if missing is not None:
                raise TableCorruptError(
                    f"the record index of the metadata table has no file group for partition {missing!r}",
                    culprit=self.view.table.folder(RECORD_INDEX),
                    hint=BUILD_ANEW,
                )

    def check_form(self, hint: str) -> None:
        """Make sure that a key is as unique in it as in the index. Raises: MetadataTableError: it is not."""
        groups = self.view.slices(RECORD_INDEX)
        if groups and is_partitioned(groups) is not self.by_partition:
            needs, has = _SCOPES if self.by_partition else reversed(_SCOPES)
            raise MetadataTableError(
                f"the record index of the metadata table has a record for a key in {has}, but the table's index is "
                f"unique in {needs}",
                culprit=self.view.table.folder(RECORD_INDEX),
                hint=hint,
            )

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """Locations of keys.

        Args:
            partition: partition of all of them; None under a global index.

        Raises:
            IndexChangedError: somebody takes it away, or makes it anew.
            TableCorruptError: it is damaged.
        """
        with self.refusing_if_dropped():
            found = find_locations(self.view, keys, partition if self.by_partition else None)
        numbers = pa.array(found.numbers)
        return Found(
            found.rows,
            pa.array([one.partition for one in found.locations], pa.string()).take(numbers),
            pa.array([one.file_id for one in found.locations], pa.string()).take(numbers),
        )

    @contextmanager
    def refusing_if_dropped(self) -> Iterator[None]:
        """What is read in the body counts only if the properties still name the index afterwards. A drop takes it off
        the properties first, then removes its files one by one. While some file groups, or the newest logs, are gone,
        stored keys are not found.

        Raises:
            IndexChangedError: somebody takes it away, or makes it anew.
        """
        try:
            yield
        except (MetadataTableError, TableCorruptError, ObjectNotFoundError):
            self._check_named()
            if self.view.table.load_timeline() == self.view.timeline:
                raise
            raise self._changed("another writer has changed it") from None
        self._check_named()

    def _check_named(self) -> None:
        now = self.now()
        if now is None or RECORD_INDEX not in now.partitions:
            raise self._changed("another writer has taken it away")

    def _changed(self, why: str) -> IndexChangedError:
        folder = self.view.table.folder(RECORD_INDEX)
        return IndexChangedError(
            f"the record index in {folder} cannot be read: {why} meanwhile", culprit=folder, hint="run again"
        )


def is_in_metadata(storage: Storage, index: StoredIndex) -> bool:
    """Whether the metadata table of a table keeps the locations of an index, as its properties say now."""
    name = index.metadata_partition
    return name is not None and name in load_table_properties(storage).metadata_partitions


def metadata_store(table: Table, timeline: Timeline, index: StoredIndex) -> MetadataRecordStore:
    """The record index of a metadata table.

    Args:
        timeline: the table's, listed before.

    Raises:
        IndexChangedError: the table has no metadata table any more.
        OptionError: the metadata table is not to be used.
    """
    view = table.metadata_view(timeline)
    if view is None and table.use_metadata:
        raise IndexChangedError(
            f"the metadata table of {table.name}, with its record index, was taken away by another writer meanwhile",
            culprit=table.uri,
            hint="run again",
        )
    if view is None:
        raise OptionError(
            f"{index.spec.index_type} of table {table.name} is in its metadata table, and {USE_METADATA_OPTION}=false",
            culprit=USE_METADATA_OPTION,
            hint=f"leave the option out, or take the index away: `lakeindex metadata drop TABLE --partition "
            f"{index.metadata_partition}`, then `lakeindex index build TABLE`",
        )
    return MetadataRecordStore(view, not index.spec.is_global, table.metadata_table_now)


def opened_metadata_store(uri: str, config: WriteConfig, index: StoredIndex) -> MetadataRecordStore:
    """The same, opened by a task: as the metadata table is now."""
    table = Table.at(uri, use_metadata=config.use_metadata)
    return metadata_store(table, table.load_timeline(), index)


def _are_taken_back(storage: Storage, timeline: Timeline, wrong: Iterable[WrongEntry]) -> bool:
    """Whether all that is wrong is of file groups with files that somebody is about to take away."""
    plans = [one.plan for one in timeline.pending_rollbacks(storage)]
    if any(plan.action == REPLACE_COMMIT for plan in plans):  # what it replaced is there again, and no plan names that
        return True
    files = ((partition, place) for plan in plans for partition, places in plan.files.items() for place in places)
    groups = {(partition, place.rpartition("/")[2].partition("_")[0]) for partition, place in files}
    return all(one.said in groups or one.stored in groups for one in wrong)


class MetadataSession(IndexSession):
    """The index of one run, in the metadata table."""

    def __init__(self, spec: RunSpec, facts: TableFacts, runner: Runner, index: StoredIndex) -> None:
        super().__init__(spec, facts, runner)
        self._stored = index

    def opened(self, batch: AskedBatch) -> StoreRef:
        """Make sure that it can answer for the batch.

        Raises:
            MetadataTableError: it was not kept up, has another form than the table's index, or says what is not so.
            TableCorruptError: it is damaged.
        """
        table = Table.at(self._spec.table_uri, use_metadata=self._spec.config.use_metadata)
        store = metadata_store(table, batch.snapshot.timeline, self._stored)
        with store.refusing_if_dropped():
            store.check(file.partition_path for file in batch.files)
            self._check_entries(table, store, batch)
        return StoreRef(NOTHING_COMPLETED, LogView(""), in_metadata=True)

    def _check_entries(self, table: Table, store: MetadataRecordStore, batch: AskedBatch) -> None:
        """Refuse an index that says what is not so: missing entries double rows, and hide among those of no row.

        What differs counts if no writer was at work since the table was listed: else all is compared again.
        """
        view, listed, files = store.view, batch.snapshot, batch.files
        for _ in range(_TRIES):
            wrong = self._wrong_entries(view, files)
            if not wrong:
                return
            now = table.load_timeline()
            if frozenset(now.files) == frozenset(listed.timeline.files):
                if not _are_taken_back(table.storage, now, wrong):
                    raise refusal(table.name, wrong, view.table.folder(RECORD_INDEX))
                return
            listed = table.snapshot(timeline=now)
            view = metadata_store(table, now, self._stored).view
            files = [one for path in listed.partitions() if self._is_in(path, batch) for one in listed.base_files(path)]

    def _wrong_entries(self, view: MetadataView, files: Sequence[BaseFile]) -> list[WrongEntry]:
        """Only what may be wrong is compared whole: then rows of one key are told from holes, too."""
        if not may_be_wrong(view, files, self._spec.run_id, keeps=self._spec.config.footer_cache):
            return []
        return [one for one in wrong_entries(view, files) if one.kind != COPY]

    @staticmethod
    def _is_in(partition: str, batch: AskedBatch) -> bool:
        return batch.partitions is None or partition in batch.partitions

    def runner_for(self, work_bytes: float) -> Runner:
        """The run's own: what is read of the metadata table is not known."""
        del work_bytes
        return self._runner
