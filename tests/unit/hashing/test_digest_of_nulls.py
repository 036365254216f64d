"""A null is no value: not zero, not the empty text, not false."""

from decimal import Decimal

import pyarrow as pa
import pytest

from lakeindex.hashing.row_digest import digest_rows


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 0),
        (pa.float64(), 0.0),
        (pa.string(), ""),
        (pa.binary(), b""),
        (pa.bool_(), False),
        (pa.decimal128(9, 2), Decimal(0)),
        (pa.list_(pa.int64()), []),
    ],
)
def test_a_null_has_another_digest_than_nothing(kind: pa.DataType, value: object):
    null, zero = (digest_rows(pa.table({"v": pa.array([one, one], kind)})) for one in (None, value))
    assert null != zero
    assert digest_rows(pa.table({"v": pa.array([None, value], kind)})) not in (null, zero)
