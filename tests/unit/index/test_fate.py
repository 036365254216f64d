from __future__ import annotations

import itertools

import numpy as np
import pytest

from lakeindex.errors import InvariantError
from lakeindex.index.fate import Fate, Ordering, fate_of, fates_of_found
from lakeindex.model import BATCH_OPERATIONS, MergeMode, Operation

BOTH = (False, True)
UPSERT, DELETE = Operation.UPSERT, Operation.DELETE
EVENT, COMMIT = MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING

Case = tuple[Operation | None, bool, bool, bool, bool, Ordering, MergeMode]
ALL: list[Case] = list(itertools.product((*BATCH_OPERATIONS, None), BOTH, BOTH, BOTH, BOTH, Ordering, MergeMode))


def expected(case: Case) -> Fate | None:
    """The table of the specification, a line a rule; None: cannot be."""
    operation, found, same, is_global, moves, ordering, mode = case
    rules = [
        (operation is None, Fate.IGNORED_UNMET),
        (not found and operation is DELETE, Fate.IGNORED_MISSING),
        (not found, Fate.INSERT),
        (operation not in (UPSERT, DELETE), Fate.IGNORED_STORED),
        (found and not same and not is_global, None),
        (found and mode is EVENT and ordering is Ordering.OLDER, Fate.IGNORED_OLDER),
        (found and operation is DELETE, Fate.DELETE),
        (found and operation is UPSERT and same, Fate.UPDATE),
        (found and operation is UPSERT and not same and not moves, Fate.UPDATE),
        (found and operation is UPSERT and not same and moves, Fate.MOVED),
    ]
    return next(fate for applies, fate in rules if applies)


def actual(case: Case) -> Fate | str | None:
    """What the library says; None where it refuses a case that cannot be, and says why."""
    operation, found, same, is_global, moves, ordering, mode = case
    try:
        return fate_of(
            operation, found=found, same_partition=same, is_global=is_global,
            update_partition_path=moves, ordering=ordering, merge_mode=mode,
        )  # fmt: skip
    except InvariantError as error:
        return None if "another partition" in str(error) else str(error)


def test_truth_table() -> None:
    wrong = {case: (told, wanted) for case in ALL if (told := actual(case)) is not (wanted := expected(case))}
    assert wrong == {}


def test_table_is_whole() -> None:
    assert len(ALL) == 7 * 2 * 2 * 2 * 2 * 4 * 2
    assert {expected(case) for case in ALL} == {*Fate, None} - {Fate.COPY}  # which no row has by itself: of a repair


@pytest.mark.parametrize("is_global", BOTH)
@pytest.mark.parametrize("moves", BOTH)
def test_arrays_follow_the_table(is_global: bool, moves: bool) -> None:
    cases = [case for case in itertools.product(BOTH, BOTH, BOTH, BOTH) if is_global or case[3] or not case[1]]
    deletes, others, older, unmet = (np.array([case[n] for case in cases]) for n in range(4))
    fates = fates_of_found(
        is_delete=deletes, is_unmet=unmet, other_partition=others, is_older=older, is_global=is_global,
        update_partition_path=moves,
    )  # fmt: skip
    for fate, (delete, other, old, nothing) in zip(fates, cases, strict=True):
        case = (
            None if nothing else DELETE if delete else UPSERT,
            True,
            not other,
            is_global,
            moves,
            Ordering.OLDER if old else Ordering.NEWER,
        )
        assert fate == expected((*case, EVENT))
    assert fates.dtype == np.int8


def test_arrays_of_a_defective_look_up_are_refused() -> None:
    one = np.array([True])
    with pytest.raises(InvariantError, match="another partition"):
        fates_of_found(
            is_delete=~one, is_unmet=~one, other_partition=one, is_older=~one, is_global=False,
            update_partition_path=True,
        )  # fmt: skip


def test_no_rows() -> None:
    none = np.zeros(0, dtype=np.bool_)
    fates = fates_of_found(
        is_delete=none, is_unmet=none, other_partition=none, is_older=none, is_global=False,
        update_partition_path=True,
    )  # fmt: skip
    assert len(fates) == 0


def test_numbers_in_checkpoints_do_not_change() -> None:
    assert {fate.name: fate.value for fate in Fate} == {
        "INSERT": 0, "UPDATE": 1, "DELETE": 2, "MOVED": 3, "IGNORED_OLDER": 4, "IGNORED_MISSING": 5,
        "IGNORED_STORED": 6, "IGNORED_UNMET": 7, "COPY": 8,
    }  # fmt: skip
