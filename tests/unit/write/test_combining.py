"""Combining duplicates: against a dictionary, whatever the order rows come in."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.model import MergeMode
from lakeindex.pipeline import STAGED_KEY, STAGED_PARTITION
from lakeindex.write.combining import ARRIVAL, combine_and_sort

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["p", "q"]), st.sampled_from(["a", "b", "é", "中", "\U0001f600", "￿"]), st.integers(0, 3)
    ),
    max_size=30,
)


def staged(rows: list[tuple[str, str, int]]):
    return pa.table(
        {
            STAGED_PARTITION: pa.array([r[0] for r in rows], pa.string()),
            STAGED_KEY: pa.array([r[1] for r in rows], pa.string()),
            "ts": pa.array([r[2] for r in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
            ARRIVAL: pa.array(range(len(rows)), pa.int64()),
        }
    )


@given(ROWS, st.booleans(), st.booleans())
def test_combine_and_sort_keeps_the_winner_of_each_key(
    rows: list[tuple[str, str, int]], is_global: bool, event_time: bool
):
    mode = MergeMode.EVENT_TIME_ORDERING if event_time else MergeMode.COMMIT_TIME_ORDERING
    result = combine_and_sort(staged(rows), is_global=is_global, ordering_field="ts" if event_time else None, mode=mode)
    winners = {}
    for n, (partition, key, ts) in enumerate(rows):
        lookup = (key,) if is_global else (partition, key)
        if lookup not in winners or not event_time or ts >= winners[lookup][0]:
            winners[lookup] = (ts, n)
    got = result.rows.to_pylist()
    expected = [winners[k][1] for k in sorted(winners, key=lambda k: tuple(part.encode() for part in k))]
    assert [r["n"] for r in got] == expected
    assert result.combined == len(rows) - len(winners)
    assert ARRIVAL not in result.rows.column_names
