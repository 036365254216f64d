"""What an operation takes out of the table as a whole, and the table that its batch meets then."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from lakeindex.errors import InputError, UsageError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile, Operation
from lakeindex.run.checkpoints import Manifest

PARTITIONS_FACT: Final = "partitions"
"""What the manifest of stage 1 calls the partitions of the batch's rows, where the operation has to know them."""
WITH_PARTITIONS: Final = (Operation.INSERT_OVERWRITE, Operation.BULK_INSERT)
"""Operations that have to know them."""


class Replaced(Frozen):
    """What is replaced.

    Attributes:
        files: live files whose groups are no part of the table afterwards.
        alone_in: partitions into which nobody else may write meanwhile; None: none of the table.
        left: the table without these groups: keys are looked up in it, and rows placed.
        is_replacing: whether the operation is one that replaces, also where there was nothing yet.
        in_the_way: live files where there may be none.
    """

    files: tuple[BaseFile, ...]
    alone_in: frozenset[str] | None
    left: Snapshot
    is_replacing: bool = True
    in_the_way: tuple[BaseFile, ...] = ()

    def check(self) -> None:
        """Make sure that nothing is in the way.

        Raises:
            UsageError: rows are stored where a bulk insert looks no key up.
        """
        for file in self.in_the_way[:1]:
            whole = ": under a global index it goes into an empty table only" if self.alone_in is None else ""
            raise UsageError(
                f"partition {file.partition_path!r} has rows, and a bulk insert looks no key up{whole}",
                culprit=file.path,
                hint="use insert, which looks the keys up, or insert_overwrite, which replaces what is there",
            )

    def check_filled(self, partitions: Collection[str]) -> None:
        """Make sure that each partition with rows, which the batch takes the place of, gets one of it: all that the
        batch has there may be left out, because their keys are stored in partitions that stay.

        Args:
            partitions: those that get rows.

        Raises:
            InputError: one would be empty.
        """
        for file in () if self.alone_in is None else self.files:
            if file.partition_path not in partitions:
                raise InputError(
                    f"partition {file.partition_path!r} would be left without rows: the keys of all that the batch has "
                    "for it are stored in partitions that stay",
                    culprit=file.partition_path,
                    hint="take these rows out of the batch, and the partition stays as it is; delete_partitions "
                    "(`lakeindex delete-partitions`) says it if the partition is to be empty",
                )


def replaced_by(operation: Operation, snapshot: Snapshot, staged: Manifest, *, is_global: bool) -> Replaced:
    """What an operation replaces."""
    if operation is Operation.BULK_INSERT:
        return _empty(snapshot, None if is_global else tuple(staged.facts[PARTITIONS_FACT]))
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return _replaced(snapshot, snapshot.partitions(), None)
    if operation is Operation.INSERT_OVERWRITE:
        touched = tuple(staged.facts[PARTITIONS_FACT])
        snapshot.preload(touched)
        return _replaced(snapshot, touched, frozenset(touched))
    return Replaced((), frozenset(), snapshot, is_replacing=False)


def _empty(snapshot: Snapshot, partitions: tuple[str, ...] | None) -> Replaced:
    """What a bulk insert needs: partitions (None: a table) without a row."""
    wanted = snapshot.partitions() if partitions is None else partitions
    snapshot.preload(wanted)
    found = tuple(file for path in wanted for file in snapshot.base_files(path))
    alone_in = None if partitions is None else frozenset(partitions)
    return Replaced((), alone_in, snapshot.without(found), is_replacing=False, in_the_way=found)


def _replaced(snapshot: Snapshot, partitions: tuple[str, ...], alone_in: frozenset[str] | None) -> Replaced:
    files = tuple(file for path in partitions for file in snapshot.base_files(path))
    return Replaced(files, alone_in, snapshot.without(files))


def ids_by_partition(files: tuple[BaseFile, ...]) -> Mapping[str, tuple[str, ...]]:
    """File groups by partition, as a replacecommit names those that it takes out of the table."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(file.partition_path, []).append(file.file_id)
    return {partition: tuple(ids) for partition, ids in found.items()}
