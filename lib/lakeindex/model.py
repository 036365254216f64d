"""Frozen values that every layer shares. Standard library only.

Terms are Hudi's: a *file group* is all versions of one data file, a *file slice* one version of it, a *base
file* the Parquet file of a slice, an *instant* one action on the timeline.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self, TypeAlias

from lakeindex.frozen import Frozen

VERSION: Final = "0.1.0"
"""Which release this is, said here alone: to ask the installed package takes a hundred modules."""


class InstantState(StrEnum):
    """Life of an instant; a completed file wins over the other two, which stay beside it."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


SYNC_OPTION: Final = "lakeindex.sync"
"""The option that names the catalogs of a table; a DAG that is parsed asks for it, too."""


class Instant(Frozen, order=True):
    """One action on the timeline.

    Attributes:
        time: ``yyyyMMddHHmmssSSS`` (17 digits; 14-digit ones of old releases compare after appending ``999``).
        action: ``commit``, ``replacecommit``, ``clean``, ``rollback``, ...; unknown ones are kept as they are.
        completion_time: only on tables of version 8 and later.
    """

    time: str
    action: str
    state: InstantState
    completion_time: str | None = None

    @property
    def is_completed(self) -> bool:
        return self.state is InstantState.COMPLETED


Group: TypeAlias = tuple[str, str]
"""(partition path, file id) of a file group."""


class BaseFile(Frozen, order=True):
    """One Parquet data file: a file slice of a copy-on-write file group.

    Attributes:
        partition_path: relative path of the partition, ``""`` on a non-partitioned table.
        file_id: id of the file group, ``<uuid>-0``.
        write_token: ``<task>-<stage>-<attempt>``.
        size_bytes: size as listed.
    """

    partition_path: str
    file_id: str
    instant_time: str
    write_token: str
    size_bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant_time}.parquet"

    @property
    def path(self) -> str:
        """Path relative to the table's folder."""
        return f"{self.partition_path}/{self.name}" if self.partition_path else self.name


class MergeMode(StrEnum):
    """Which of two versions of a record wins (``hoodie.write.record.merge.mode``)."""

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"


class KeyGeneratorType(StrEnum):
    """How record keys and partition paths are made from columns (``hoodie.table.keygenerator.type``)."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"


class IndexType(StrEnum):
    """Index families (``hoodie.index.type``). A line here and the module it names are an index type: see
    ``docs/adding-an-index.md``.

    Attributes:
        module: module of the kind, with ``make_index(spec)`` and, for the adviser, ``ADVICE``. A module beside it of
            the same name and ``_options`` has its options.
        is_global: a key is unique in the whole table (True) or in its partition (False),
            unless a bound option says else.
        has_filters: candidates are narrowed by filters in a stage of their own.
        is_stored: it keeps key -> location somewhere, which has to be built and follows the timeline.
    """

    module: str
    is_global: bool
    has_filters: bool
    is_stored: bool

    def __new__(cls, name: str, module: str = "", *traits: str) -> Self:
        """A member: its name is its value."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.module = module
        member.is_global, member.has_filters = "global" in traits, "filters" in traits
        member.is_stored = "stored" in traits
        return member

    BLOOM = "BLOOM", "lakeindex.index.bloom", "filters"
    GLOBAL_BLOOM = "GLOBAL_BLOOM", "lakeindex.index.bloom", "filters", "global"
    SIMPLE = "SIMPLE", "lakeindex.index.simple"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE", "lakeindex.index.simple", "global"
    BUCKET = "BUCKET", "lakeindex.index.bucket"
    INMEMORY = "INMEMORY", "lakeindex.index.locations.in_memory", "stored"
    RECORD_INDEX = "RECORD_INDEX", "lakeindex.index.locations.record", "stored", "global"
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX", "lakeindex.index.locations.record", "stored"
    HBASE = "HBASE", "lakeindex.index.hbase.hbase", "stored", "global"
    STATE = "STATE", "lakeindex.index.locations.state", "stored", "global"


INDEX_ALIASES: Final[dict[str, IndexType]] = {"GLOBAL_RECORD_LEVEL_INDEX": IndexType.RECORD_INDEX}
"""Other names of index types: Hudi 1.1 renamed its record index."""


DEFAULT_INDEX: Final = (IndexType.BLOOM, IndexType.GLOBAL_BLOOM)
"""What a table has if nobody says: where a key is unique in its partition; and in the whole table."""


class IndexSpec(Frozen):
    """An index type and the options that are bound to the table with it.

    Attributes:
        options: (option name, text) of what all writers must share, such as the number of buckets; sorted.
    """

    index_type: IndexType
    options: tuple[tuple[str, str], ...] = ()

    def option(self, key: str) -> str:
        """A bound option's text. Raises: KeyError: the type has no such option."""
        return dict(self.options)[key]

    @property
    def is_global(self) -> bool:
        return dict(self.options).get(GLOBAL_OPTION, str(self.index_type.is_global).lower()) == "true"


GLOBAL_OPTION: Final = "index.global.enabled"
"""Hudi's option (of its Flink engine) that makes a state index global or not."""


class Operation(StrEnum):
    """Write operations, spelled as Hudi's ``operationType``."""

    UPSERT = "UPSERT"
    INSERT = "INSERT"
    BULK_INSERT = "BULK_INSERT"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE = "DELETE"
    DELETE_PARTITION = "DELETE_PARTITION"

    @property
    def only_inserts(self) -> bool:
        """Whether each row is a new one: a key that is stored, and stays, is in its way."""
        return self in INSERTING_OPERATIONS


class Change(StrEnum):
    """What is done with the rows of the table that meet a condition."""

    DELETE = "delete"
    UPDATE = "update"
    REPLACE = "replace"
    """They go, and the rows of a batch come."""
    REPAIR = "repair"
    """Of keys that are stored more than once, one row stays."""


INSERTING_OPERATIONS: Final = (
    *(Operation.INSERT, Operation.BULK_INSERT),
    *(Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE),
)
"""Operations whose rows are new ones, all of them."""

BATCH_OPERATIONS: Final = (Operation.UPSERT, *INSERTING_OPERATIONS, Operation.DELETE)
"""What can be done with a batch of rows, in five stages."""

ARRANGING_OPERATION: Final = "CLUSTER"
"""Hudi's ``operationType`` of a commit that only puts rows into other files: the table has the same ones afterwards."""
