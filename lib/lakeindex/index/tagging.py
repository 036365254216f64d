"""What becomes of an incoming row: one small function, tested over its whole truth table.

==========  ==========  =============  ================  ======================
op          stored row  partition      ordering (event)  fate
==========  ==========  =============  ================  ======================
upsert      none                                         INSERT
delete      none                                         IGNORED_MISSING
any         there       any            OLDER             IGNORED_OLDER
delete      there       any            else              DELETE (where it is)
upsert      there       same           else              UPDATE
upsert      there       other, global  else              MOVED, or UPDATE where
                                                         it is if rows stay
==========  ==========  =============  ================  ======================

Under commit-time ordering the incoming row always wins, so nothing is OLDER. On a tie the incoming row wins. Where
one of the two has no ordering value (an old row of before the column was there, a delete by key alone) nothing can be
compared, and the incoming row wins as well.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

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


class Ordering(StrEnum):
    """The incoming row's ordering value against the stored one's."""

    NEWER = "newer"
    EQUAL = "equal"
    OLDER = "older"
    NULL = "null"
    """One of the two has no value."""


def fate_of(
    operation: Operation,
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
        operation: what the row asks for.
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
    deletes = operation is Operation.DELETE
    if not found:
        return Fate.IGNORED_MISSING if deletes else Fate.INSERT
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
