"""What one run is told, and what every task of it needs to know about the table."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeindex.model import IndexSpec, IndexType, MergeMode, Operation
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import RunFolder
from lakeindex.storage import StoreOptions, current_options, open_storage
from lakeindex.storage.port import Storage
from lakeindex.tasks.meter import MeteredStorage
from lakeindex.tasks.runner import current_meter
from lakeindex.write.keys.keys import KeySpec

_STORE_VARIABLES: Final = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_")


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run, as the caller asked for it. Holds no credentials; travels to every task.

    Attributes:
        table_uri: the table's folder.
        checkpoints_uri: root of the run folders.
        run_id: names this run's folder; a retry of the run uses the same.
        batch_id: name of the batch: the same id is committed once.
        operation: upsert or delete.
        inputs: files or folders of the batch.
        options: option names and texts, sorted.
        max_quarantined: bad rows that are tolerated.
        force: commit a used batch id again, and roll back foreign pending instants whatever their age.
    """

    table_uri: str
    checkpoints_uri: str
    run_id: str
    batch_id: str
    operation: Operation
    inputs: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()
    max_quarantined: int = 0
    force: bool = False

    @property
    def config(self) -> WriteConfig:
        """The options, typed."""
        return parse_options(self.options)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What tasks need to know about the table; frozen at the start of a stage.

    Attributes:
        name: table name, for Avro schemas.
        schema: the table's columns, without meta columns.
        keys: how record keys and partition paths are made.
        ordering_field: column of ordering values, if the table has one.
        merge_mode: which version of a record wins.
        index: the index, with what is bound to it.
    """

    name: str
    schema: pa.Schema
    keys: KeySpec
    ordering_field: str | None
    merge_mode: MergeMode
    index: IndexSpec

    @property
    def index_type(self) -> IndexType:
        """The type of the index."""
        return self.index.index_type

    @property
    def is_global(self) -> bool:
        """Whether keys are unique in the whole table."""
        return self.index.is_global

    @property
    def event_time_field(self) -> str | None:
        """The ordering field if it decides which version wins, else None."""
        return self.ordering_field if self.merge_mode is MergeMode.EVENT_TIME_ORDERING else None


@functools.lru_cache(maxsize=64)
def _opened(uri: str, options: StoreOptions, _environment: tuple[tuple[str, str], ...]) -> Storage:
    return open_storage(uri, options)


def storage_at(uri: str) -> Storage:
    """The store at a URI, as the options of the running call and the environment have it,
    counting into the running task's meter.

    It is opened once a process for the same of all three: stores of one URI may be different ones.
    """
    return MeteredStorage(_opened(uri, current_options(), _environment_of(uri)), current_meter())


def _environment_of(uri: str) -> tuple[tuple[str, str], ...]:
    """The variables that say which store an object store's URL means."""
    if "://" not in uri or uri.startswith(("file://", "memory://")):
        return ()
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith(_STORE_VARIABLES)))


def run_folder(spec: RunSpec) -> RunFolder:
    """The run's checkpoint folder."""
    return RunFolder(storage_at(spec.checkpoints_uri), spec.run_id)
