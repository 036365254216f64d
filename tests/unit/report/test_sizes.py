"""Files of a report by their size."""

import pyarrow as pa
import pytest

from lakeindex.report.make_report import _by_size

MIB = 2**20


@pytest.mark.parametrize(
    ("size", "place"),
    [
        (0, 0),
        (MIB - 1, 0),
        (MIB, 1),
        (8 * MIB - 1, 1),
        (8 * MIB, 2),
        (32 * MIB, 3),
        (64 * MIB, 4),
        (128 * MIB, 5),
        (2**40, 5),
    ],
)
def test_a_file_counts_below_the_next_bound(size: int, place: int):
    assert _by_size(pa.table({"bytes": [size, size]})) == [2 if n == place else 0 for n in range(6)]
