"""What becomes of an incoming row: one small function, tested over its whole truth table.

==========  ==========  =============  ================  ======================
op          stored row  partition      ordering (event)  fate
==========  ==========  =============  ================  ======================
none        any         any            any               IGNORED_UNMET
upsert      none                                         INSERT
delete      none                                         IGNORED_MISSING
any         there       any            OLDER             IGNORED_OLDER
insert      there       any                              IGNORED_STORED
delete      there       any            else              DELETE (where it is)
upsert      there       same           else              UPDATE
upsert      there       other, global  else              MOVED, or UPDATE where
                                                         it is if rows stay
==========  ==========  =============  ================  ======================

Under commit-time ordering the incoming row always wins, so nothing is OLDER. On a tie the incoming row wins. Where
one of the two has no ordering value (an old row of before the column was there, a delete by key alone) nothing can be
compared, and the incoming row wins as well.

A condition of the write may change what a row asks for, before anything else: to a delete, or to nothing.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt

from lakeindex.errors import InvariantError
from lakeindex.model import MergeMode, Operation


class Fate(IntEnum):
    """What becomes of a row; the numbers stand in checkpoints."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    MOVED = 3
    IGNORED_OLDER = 4
    IGNORED_MISSING = 5
    IGNORED_STORED = 6
    IGNORED_UNMET = 7
    COPY = 8
    """Of a key that is stored more than once, a row that goes while another one stays."""


class Ordering(StrEnum):
    """The incoming row's ordering value against the stored one's."""

    NEWER = "newer"
    EQUAL = "equal"
    OLDER = "older"
    NULL = "null"
    """One of the two has no value."""


def fate_of(
    operation: Operation | None,
    *,
    found: bool,
    same_partition: bool,
    is_global: bool,
    update_partition_path: bool,
    ordering: Ordering,
    merge_mode: MergeMode,
) -> Fate:
    """The fate of one incoming row.

    Args:
        operation: what the row asks for; None: nothing, because it does not meet a condition.
        found: the key is stored.
        same_partition: it is stored in the partition that the row names; of no meaning if not found.
        is_global: keys are unique in the whole table.
        update_partition_path: a row that arrives with another partition moves there
            (``hoodie.bloom.index.update.partition.path``); otherwise it is updated where it is.
        ordering: incoming against stored ordering value; of no meaning if not found.
        merge_mode: whether ordering values decide.

    Raises:
        InvariantError: an index that is not global found the key in another partition.
    """
    if operation is None:
        return Fate.IGNORED_UNMET
    deletes = operation is Operation.DELETE
    if not found:
        return Fate.IGNORED_MISSING if deletes else Fate.INSERT
    if operation.only_inserts:
        return Fate.IGNORED_STORED
    if not same_partition and not is_global:
        raise InvariantError(
            "a key was found in another partition by an index that looks only into the row's own",
            hint="this is a defect of the index look-up; nothing was published",
        )
    if merge_mode is MergeMode.EVENT_TIME_ORDERING and ordering is Ordering.OLDER:
        return Fate.IGNORED_OLDER
    if deletes:
        return Fate.DELETE
    return Fate.UPDATE if same_partition or not update_partition_path else Fate.MOVED


def fates_of_found(
    *,
    is_delete: npt.NDArray[np.bool_],
    is_unmet: npt.NDArray[np.bool_],
    other_partition: npt.NDArray[np.bool_],
    is_older: npt.NDArray[np.bool_],
    is_global: bool,
    update_partition_path: bool,
) -> npt.NDArray[np.int8]:
    """Fates of rows whose key is stored, int8 [n]: :func:`fate_of` for each row, by table.

    Args:
        is_delete: bool [n], the row, or a condition that it meets, asks for a delete.
        is_unmet: bool [n], the row does not meet a condition: nothing is done.
        other_partition: bool [n], the key is stored in another partition than the row names.
        is_older: bool [n], event time decides and the incoming row is older than the stored one.
        is_global: keys are unique in the whole table.
        update_partition_path: rows move to the partition they arrive with.

    Raises:
        InvariantError: an index that is not global found a key in another partition.
    """
    case = is_delete + 2 * other_partition.astype(np.int8) + 4 * is_older.astype(np.int8) + 8 * is_unmet.astype(np.int8)
    table = np.full(16, -1, dtype=np.int8)
    for number in np.unique(case):
        table[number] = fate_of(
            None if number & 8 else Operation.DELETE if number & 1 else Operation.UPSERT,
            found=True,
            same_partition=not number & 2,
            is_global=is_global,
            update_partition_path=update_partition_path,
            ordering=Ordering.OLDER if number & 4 else Ordering.NEWER,
            merge_mode=MergeMode.EVENT_TIME_ORDERING,
        )
    return table[case]
