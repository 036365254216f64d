"""What rollbacks and restores have taken back: the instants, and the data files that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Undone:
    """What completed rollbacks, or the rollbacks that a restore is made of, have taken back.

    Attributes:
        instants: times of the instants.
        files: (partition path, file name) of the data files that were deleted, or were to be.
    """

    instants: frozenset[str] = frozenset()
    files: frozenset[tuple[str, str]] = frozenset()

    @staticmethod
    def joined(parts: Iterable[Undone]) -> Undone:
        """All of them."""
        every = tuple(parts)
        return Undone(
            frozenset(time for one in every for time in one.instants),
            frozenset(file for one in every for file in one.files),
        )


NOTHING_UNDONE: Final = Undone()


def undone_by_rollback(record: Mapping[str, Any]) -> Undone:
    """What one rollback has taken back.

    Args:
        record: Hudi's ``HoodieRollbackMetadata``.
    """
    instants = {one["commitTime"] for one in record.get("instantsRollback") or ()} or set(record["commitsRollback"])
    files = {
        (partition, place.rpartition("/")[2])
        for partition, found in record["partitionMetadata"].items()
        for place in (*found["successDeleteFiles"], *found["failedDeleteFiles"])
    }
    return Undone(frozenset(instants), frozenset(files))


def undone_by_restore(record: Mapping[str, Any]) -> Undone:
    """What one restore has taken back.

    Args:
        record: Hudi's ``HoodieRestoreMetadata``.
    """
    rollbacks = [one for found in record["hoodieRestoreMetadata"].values() for one in found if one is not None]
    return Undone.joined(
        [Undone(frozenset(record.get("instantsToRollback") or ())), *(undone_by_rollback(one) for one in rollbacks)]
    )
