"""What the path of a time says of the values that it is made of, against all values."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from lakeindex.errors import OptionError
from lakeindex.write.keys.time_partitions import TRANSFORMS, TimeOptions, TimePartitioner


def partitioner(transform: str, kind: pa.DataType, **more: str) -> TimePartitioner:
    options = TimeOptions.of_transform(transform, kind, "at") | more
    return TimePartitioner(
        TimeOptions.from_properties({f"hoodie.keygen.timebased.{name}": text for name, text in options.items()})
    )


def numbers(kind: pa.DataType) -> list[int]:
    """Values around every edge of hours, days, months and years that matters, 1 BC and the last year of dates aside."""
    edges = [
        dt.datetime(*day, tzinfo=dt.UTC)
        for day in (
            (1969, 1, 1),
            (1970, 1, 1),
            (1971, 1, 1),
            (2023, 12, 31),
            (2024, 2, 29),
            (2024, 3, 1),
            (1582, 10, 15),
        )
    ]
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    if pa.types.is_date(kind):
        return sorted({(edge - epoch).days + near for edge in edges for near in range(-40, 41)})
    micros = [(edge - epoch) // dt.timedelta(microseconds=1) for edge in edges]
    near = (-3_600_000_001, -3_600_000_000, -1_000_001, -1_000_000, -999_999, -1000, -999, -1, 0, 1, 999, 3_600_000_000)
    return sorted({edge + step for edge in micros for step in near})


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")])
def test_every_value_is_inside_of_its_path_and_no_other(transform: str, kind: pa.DataType) -> None:
    if pa.types.is_date(kind) and transform == "hour":
        with pytest.raises(OptionError, match="no partitions by hour"):
            partitioner(transform, kind)
        return
    maker = partitioner(transform, kind)
    values = numbers(kind)
    column = pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    paths = maker.paths(column, "at")[0].to_pylist()
    of_null = maker.paths(pa.nulls(1, kind), "at")[0][0].as_py()
    wrong = []
    for path in {*paths, of_null}:
        known = maker.values_of(path)
        assert known is not None, path
        least, greatest, may_be_null = known
        inside = [value for value, made in zip(values, paths, strict=True) if made == path]
        outside = [value for value, made in zip(values, paths, strict=True) if made != path]
        if any(not least <= value <= greatest for value in inside) or any(
            least <= value <= greatest for value in outside
        ):
            wrong.append(path)
        if may_be_null is not (path == of_null):
            wrong.append(f"null of {path}")
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("2024", {}),
        ("2024-13", {}),
        ("2024-1", {}),
        ("__HIVE_DEFAULT_PARTITION__", {}),
        ("", {}),
        ("9999-12", {}),
        ("2024-01", {"output.timezone": "Europe/Berlin"}),
        ("01-2024", {"output.dateformat": "MM-yyyy"}),
        ("01", {"output.dateformat": "MM"}),
        ("2024-01", {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd"}),
    ],
)
def test_what_is_not_sure_is_not_known(path: str, more: dict[str, str]) -> None:
    assert partitioner("month", pa.timestamp("us", "UTC"), **more).values_of(path) is None


def test_a_time_of_another_writer_is_known_likewise() -> None:
    maker = partitioner("day", pa.timestamp("us"), **{"output.dateformat": "yyyy/MM/dd", "output.timezone": "GMT"})
    day = 86_400_000_000
    assert maker.values_of("1970/01/02") == (day, 2 * day - 1, False)


def test_a_column_that_says_no_time() -> None:
    with pytest.raises(OptionError, match="is string, which has no partitions by month") as found:
        partitioner("month", pa.string())
    assert "hoodie.keygen.timebased.timestamp.type" in (found.value.hint or "")
