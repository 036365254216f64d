"""``_hoodie_commit_seqno``: the same text for the same row, however the rows of a file lie."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from lakeindex.write.base_file import sequence_numbers

INSTANT = "20260101000000000"


def texts(task: int, rows: list[int]) -> list[str]:
    return [f"{INSTANT}_{task}_{row}" for row in rows]


@example(0, 1, 3)
@example(0, 11, 0)
@example(999, 2, 12)
@example(99_990, 2_020, 7)
@example(1_000_000, 1_000, 0)
@given(st.integers(0, 2**33), st.integers(1, 3_000), st.integers(0, 200))
def test_rows_behind_each_other(first: int, count: int, task: int) -> None:
    rows = np.arange(first, first + count, dtype=np.int64)
    made = sequence_numbers(INSTANT, task, rows)
    made.validate(full=True)
    assert made.type == pa.string()
    assert made.to_pylist() == texts(task, rows.tolist())


@example([0, 2, 1, 3], 0)
@given(st.lists(st.integers(0, 3_000), max_size=50), st.integers(0, 200))
def test_rows_in_any_order(picked: list[int], task: int) -> None:
    assert sequence_numbers(INSTANT, task, np.array(picked, np.int64)).to_pylist() == texts(task, picked)


def test_rows_of_several_files_that_go_on_where_the_one_before_ended() -> None:
    made = sequence_numbers(INSTANT, np.array([7, 7, 8, 8]), np.arange(4))
    assert made.to_pylist() == texts(7, [0, 1]) + texts(8, [2, 3])


def test_no_rows_are_no_texts() -> None:
    assert len(sequence_numbers(INSTANT, 1, np.zeros(0, np.int64))) == 0
