"""Frozen values that every layer shares. Standard library only.

Terms are Hudi's: a *file group* is all versions of one data file, a *file slice* one version of it, a *base
file* the Parquet file of a slice, an *instant* one action on the timeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InstantState(StrEnum):
    """Life of an instant; a completed file wins over the other two, which stay beside it."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """One action on the timeline.

    Attributes:
        time: ``yyyyMMddHHmmssSSS`` (17 digits; 14-digit ones of old releases compare after appending ``999``).
        action: ``commit``, ``replacecommit``, ``clean``, ``rollback``, ...; unknown ones are kept as they are.
        state: requested, inflight or completed.
        completion_time: only on tables of version 8 and later.
    """

    time: str
    action: str
    state: InstantState
    completion_time: str | None = None

    @property
    def is_completed(self) -> bool:
        """Whether it is part of the table's history."""
        return self.state is InstantState.COMPLETED


@dataclass(frozen=True, order=True, slots=True)
class BaseFile:
    """One Parquet data file: a file slice of a copy-on-write file group.

    Attributes:
        partition_path: relative path of the partition, ``""`` on a non-partitioned table.
        file_id: id of the file group, ``<uuid>-0``.
        instant_time: the instant that wrote the file.
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
        """File name."""
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
    """Index families (``hoodie.index.type``)."""

    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"


class Operation(StrEnum):
    """Write operations, spelled as Hudi's ``operationType``."""

    UPSERT = "UPSERT"
    DELETE = "DELETE"
