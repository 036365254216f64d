"""Every Arrow type: what a table stores of it. docs/format.md has the same table, and is compared with this one."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakeindex
from lakeindex.errors import SchemaMismatchError
from lakeindex.operations.create_table import create_like
from lakeindex.write.types.avro_schema import schema_from_avro, schema_to_avro
from lakeindex.write.types.schema_fit import fit_batch
from lakeindex.write.types.type_fit import storable_column, storable_schema, storable_type

PAGE = Path(__file__).resolve().parents[3] / "docs" / "format.md"
ZONED = dt.datetime(2020, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
NOON = ZONED.replace(tzinfo=None)


@dataclass(frozen=True)
class Line:
    """A row of the page's table: types, as what they are stored (None: refused), what is said, and a value of each."""

    types: tuple[pa.DataType, ...]
    stored: pa.DataType | None
    said: str
    values: tuple[Any, ...] = ()


def lines(*types: pa.DataType, stored: pa.DataType | None, said: str, values: tuple[Any, ...] = ()) -> Line:
    return Line(types, stored, said, values)


TEXTS = (pa.string(), pa.large_string(), pa.string_view())
TEXT_KEYS = (*TEXTS, pa.dictionary(pa.int32(), pa.string()))
LINES = (
    lines(pa.bool_(), stored=pa.bool_(), said="the same", values=(True, False, None)),
    lines(
        *(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()),
        stored=pa.int32(),
        said="wider",
        values=(0, 127, None),
    ),
    lines(pa.int64(), pa.uint32(), stored=pa.int64(), said="wider", values=(0, 2**32 - 1, None)),
    lines(pa.uint64(), stored=pa.int64(), said="below 2^63", values=(0, 2**63 - 1, None)),
    lines(pa.float16(), stored=pa.float32(), said="wider", values=(0.5, float("inf"), -0.0, 65504.0, None)),
    lines(pa.float32(), stored=pa.float32(), said="the same", values=(0.5, float("inf"), -0.0, None)),
    lines(pa.float64(), stored=pa.float64(), said="the same", values=(0.1, float("-inf"), -0.0, None)),
    lines(
        *(pa.decimal32(9, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(9, 2)),
        stored=pa.decimal128(9, 2),
        said="the same value, at most 38 digits",
        values=(Decimal("-1234567.89"), Decimal("0.10"), None),
    ),
    lines(pa.decimal256(39, 2), pa.decimal128(9, -2), stored=None, said="more than 38 digits, or a scale below 0"),
    lines(*TEXTS, stored=pa.string(), said="the same", values=("", "é中\U0001f600", None)),
    lines(pa.binary(), pa.large_binary(), stored=pa.binary(), said="the same", values=(b"", b"\x00\xff", None)),
    lines(pa.binary_view(), stored=pa.binary(), said="the same", values=(b"", b"\x00\xff", None)),
    lines(pa.binary(2), stored=pa.binary(), said="the same; the length is not kept", values=(b"\x00\xff", b"ab", None)),
    lines(pa.date32(), stored=pa.date32(), said="the same", values=(dt.date(1, 1, 1), dt.date(2020, 1, 1), None)),
    lines(pa.date64(), stored=pa.date32(), said="whole days", values=(dt.date(1, 1, 1), dt.date(2020, 1, 1), None)),
    lines(
        pa.timestamp("us"), pa.timestamp("ns"), stored=pa.timestamp("us"), said="whole microseconds", values=(NOON, None)
    ),
    lines(
        *(pa.timestamp("s"), pa.timestamp("ms")),
        stored=pa.timestamp("us"),
        said="wider",
        values=(NOON.replace(microsecond=0), None),
    ),
    lines(
        *(pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin")),
        stored=pa.timestamp("us", "UTC"),
        said="the same instant in whole microseconds; the zone's name is not kept",
        values=(ZONED, None),
    ),
    lines(
        *(pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")),
        stored=pa.timestamp("us", "UTC"),
        said="wider",
        values=(ZONED.replace(microsecond=0), None),
    ),
    lines(
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        stored=None,
        said="Spark has no such type: cast it to a number or text",
    ),
    lines(
        *(pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns")),
        stored=pa.int64(),
        said="the number of its microseconds, whole ones",
        values=(dt.timedelta(days=-1), dt.timedelta(seconds=5), None),
    ),
    lines(pa.month_day_nano_interval(), stored=None, said="cast it to a number or text"),
    lines(pa.null(), stored=None, said="a column of a table needs a type; in a batch, a column may be all null"),
    lines(
        *(pa.list_(pa.int32()), pa.large_list(pa.int32())),
        stored=pa.list_(pa.int32()),
        said="elements as here",
        values=([1, None], [], None),
    ),
    lines(
        *(pa.list_view(pa.int32()), pa.large_list_view(pa.int32())),
        stored=pa.list_(pa.int32()),
        said="elements as here",
        values=([1, None], [], None, [2]),
    ),
    lines(
        pa.list_(pa.int32(), 2),
        stored=pa.list_(pa.int32()),
        said="elements as here; the length is not kept",
        values=([1, None], None, [2, 3]),
    ),
    lines(
        pa.struct([("x", pa.int16()), ("y", pa.string())]),
        stored=pa.struct([("x", pa.int32()), ("y", pa.string())]),
        said="fields as here, at least one",
        values=({"x": 1, "y": None}, None),
    ),
    lines(pa.struct([]), stored=None, said="Parquet has no empty struct"),
    lines(
        *(pa.map_(key, pa.int32()) for key in TEXT_KEYS),
        stored=pa.map_(pa.string(), pa.int32()),
        said="values as here",
        values=([("a", 1), ("é", None)], [], None),
    ),
    lines(
        *(pa.map_(pa.int32(), pa.int32()), pa.map_(pa.binary(), pa.int32()), pa.map_(pa.date32(), pa.int32())),
        stored=None,
        said="Avro's map keys are strings: make it a list of structs",
    ),
    lines(
        pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.large_string()), stored=pa.string(),
        said="decoded", values=("a", "b", None),
    ),
    lines(
        pa.run_end_encoded(pa.int32(), pa.string()), stored=pa.string(), said="decoded", values=("a", "a", None, "b")
    ),
    lines(pa.dense_union([pa.field("a", pa.int32())]), stored=None, said="split it into columns"),
    lines(pa.json_(), stored=pa.string(), said="its text", values=('{"a": 1}', None)),
    lines(pa.uuid(), stored=pa.binary(), said="its 16 bytes", values=(bytes(range(16)), None)),
    lines(pa.bool8(), stored=pa.bool_(), said="the same", values=(True, False, None)),
)  # fmt: skip
KEPT = [(kind, line) for line in LINES if line.stored is not None for kind in line.types]
REFUSED = [(kind, line) for line in LINES if line.stored is None for kind in line.types]


def name_of(value: object) -> str | None:
    return str(value) if isinstance(value, pa.DataType) else ""


def create(folder: Path, schema: pa.Schema, **arguments: Any) -> Path:
    pq.write_table(schema.empty_table(), folder / "like.parquet")
    create_like(str(folder / "t"), str(folder / "like.parquet"), **{"keys": ["id"], **arguments})
    return folder / "t"


@pytest.mark.parametrize(("kind", "line"), KEPT, ids=name_of)
def test_the_type_is_stored_and_its_values_kept(kind: pa.DataType, line: Line) -> None:
    stored = schema_from_avro(schema_to_avro(storable_schema(pa.schema([("c", kind)])), "t"))
    assert stored.field("c").type == line.stored
    values = array_of(line.values, kind)
    fitted = fit_batch(pa.table({"c": values}), stored).columns.column("c")
    assert fitted.type == line.stored
    assert [repr(one) for one in instants(fitted)] == [repr(one) for one in instants(values)]


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values).cast(kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type))
    return pa.array(values, kind)


def instants(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values; zoned times as text in UTC."""
    if isinstance(values.type, pa.UuidType):
        return [None if one is None else one.bytes for one in values.to_pylist()]
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return values.cast(pa.timestamp("us", "UTC")).cast(pa.string()).to_pylist()
    if pa.types.is_duration(values.type):
        return values.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    return [one.to_pydatetime(warn=False) if hasattr(one, "to_pydatetime") else one for one in values.to_pylist()]


@pytest.mark.parametrize(("kind", "line"), REFUSED, ids=name_of)
def test_the_type_is_refused_by_name(kind: pa.DataType, line: Line) -> None:
    for one in (kind, pa.list_(kind), pa.struct([("x", kind)]), pa.map_(pa.string(), kind)):
        with pytest.raises(SchemaMismatchError, match="which a Hudi table cannot hold") as caught:
            schema_to_avro(storable_schema(pa.schema([("c", one)])), "t")
        assert caught.value.hint


def page_table() -> list[str]:
    header = "| Arrow type | stored as | values |"
    text = PAGE.read_text()
    assert header in text
    table = text[text.index(header) :].split("\n\n")[0]
    return table.splitlines()


def test_the_page_says_the_same() -> None:
    expected = ["| Arrow type | stored as | values |", "|---|---|---|"]
    for line in LINES:
        types = ", ".join(f"`{kind}`" for kind in line.types)
        stored = "refused" if line.stored is None else f"`{line.stored}`"
        expected.append(f"| {types} | {stored} | {line.said} |")
    assert page_table() == expected


def test_decimals_and_the_doubles_next_to_them_are_the_same_numbers() -> None:
    """Arrow's own cast makes 38426.090000000004 of 38426.09, and one in seven others wrong."""
    decimals = [Decimal(n * 7919 % 10**9).scaleb(-2) for n in range(2000)] + [Decimal("38426.09"), None]
    doubles = [None if one is None else float(one) for one in decimals]
    for kind in (pa.decimal128(15, 2), pa.decimal128(38, 2)):
        batch = pa.table({"c": pa.array(decimals, kind)})
        stored = fit_batch(batch, pa.schema([("c", pa.float64())]))
        assert stored.columns.column("c").to_pylist() == doubles
        again = fit_batch(pa.table({"c": pa.array(doubles)}), batch.schema)
        assert again.columns.column("c").to_pylist() == decimals


@pytest.mark.parametrize(
    ("kind", "value", "target", "why"),
    [
        (pa.float64(), 0.1, pa.float32(), "0.1 would become 0.1000000014"),
        (pa.float64(), 1e300, pa.float32(), "would become inf"),
        (pa.float64(), 0.123, pa.decimal128(10, 2), "0.123 would become 0.12"),
        (pa.decimal128(38, 0), Decimal(10**30 + 1), pa.float64(), "would become 1e\\+30"),
        (pa.float64(), 1.0, pa.int32(), "the types differ"),
        (pa.int64(), 2**53 + 1, pa.float64(), "not in range"),
        (pa.int64(), 2**31, pa.int32(), "not in range"),
        (pa.timestamp("ns"), 1, pa.timestamp("us"), "would lose data"),
        (pa.timestamp("us"), NOON, pa.timestamp("us", "UTC"), "one has a time zone"),
        (pa.timestamp("us", "UTC"), ZONED, pa.timestamp("us"), "one has a time zone"),
        (pa.list_(pa.timestamp("us")), [NOON], pa.list_(pa.timestamp("us", "UTC")), "one has a time zone"),
        (pa.list_(pa.int64()), [1], pa.list_(pa.string()), "elements are int64 and string"),
        (pa.list_(pa.float64()), [0.5], pa.list_(pa.float32()), "could be rounded"),
        (pa.list_(pa.int64()), [2**31], pa.list_(pa.int32()), "not in range"),
        (pa.map_(pa.int32(), pa.int32()), [(1, 1)], pa.map_(pa.string(), pa.int32()), "map keys are int32"),
        (pa.map_(pa.string(), pa.bool_()), [("a", True)], pa.map_(pa.string(), pa.int32()), "map values are bool"),
        (pa.struct([("x", pa.int32()), ("y", pa.int32())]), {}, pa.struct([("x", pa.int32())]), "no field 'y'"),
        (pa.struct([("x", pa.int32())]), {}, pa.struct([("x", pa.int32()), ("y", pa.int32())]), "lacks the field 'y'"),
        (pa.uint64(), 2**63, pa.int64(), "not in range"),
        (pa.list_(pa.uint64()), [2**63], pa.list_(pa.int64()), "not in range"),
        (pa.duration("ns"), 1001, pa.int64(), "would lose data"),
        (pa.list_(pa.duration("ns")), [1001], pa.int64(), "the types differ"),
        (pa.list_(pa.duration("ns")), [1001], pa.list_(pa.int64()), "would lose data"),
        (pa.duration("s"), 10**5, pa.int32(), "not in range"),
        (pa.binary(), b"a", pa.string(), "the types differ"),
        (pa.bool_(), True, pa.int32(), "the types differ"),
        (pa.string(), "1", pa.int32(), "the types differ"),
    ],
)  # fmt: skip
def test_values_that_would_change_are_refused(kind: pa.DataType, value: Any, target: pa.DataType, why: str) -> None:
    batch = pa.table({"c": pa.array([None, value], kind)})
    with pytest.raises(SchemaMismatchError, match=f"column 'c' is .*{why}"):
        fit_batch(batch, pa.schema([("c", target)]))


@pytest.mark.parametrize(
    ("kind", "values", "target"),
    [
        (pa.float64(), [0.5, float("nan"), float("inf"), None], pa.float32()),
        (pa.float64(), [0.25, None], pa.decimal128(10, 2)),
        (pa.decimal128(10, 2), [Decimal("0.10"), None], pa.float64()),
        (pa.decimal128(10, 2), [Decimal("5.00"), None], pa.decimal128(12, 1)),
        (pa.int8(), [1, None], pa.float32()),
        (pa.null(), [None, None], pa.list_(pa.int32())),
        (pa.struct([("y", pa.int8()), ("x", pa.int8())]), [{"x": 1, "y": 2}], pa.struct([("x", pa.int32()), ("y", pa.int64())])),
        (pa.list_(pa.dictionary(pa.int32(), pa.string())), [["a"]], pa.list_(pa.string())),
        (pa.list_(pa.int32(), 2), [[1, 2], None], pa.list_(pa.int64())),
    ],
)  # fmt: skip
def test_values_that_stay_are_taken(kind: pa.DataType, values: list[Any], target: pa.DataType) -> None:
    fitted = fit_batch(pa.table({"c": pa.array(values, kind)}), pa.schema([("c", target)])).columns.column("c")
    assert fitted.type == target
    assert str(fitted.to_pylist()) == str(pa.array(values, kind).cast(target).to_pylist())


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ([("a", pa.int32()), ("A", pa.int32())], "as 'a' and as 'A'"),
        ([("s", pa.struct([("x", pa.int32()), ("X", pa.int32())]))], "as 's.x' and as 's.X'"),
        ([("s", pa.list_(pa.struct([("x", pa.int32()), ("X", pa.int32())])))], "as 's.x' and as 's.X'"),
        ([("s", pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("X", pa.int32())])))], "as 's.x' and as 's.X'"),
        ([("ID", pa.int32())], "as 'id' and as 'ID'"),
    ],
)
def test_columns_that_differ_only_in_case_are_refused(
    columns: list[tuple[str, pa.DataType]], named: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaMismatchError, match=named):
        create(tmp_path, pa.schema([("id", pa.string()), *columns]))
    assert not (tmp_path / "t").exists()


COLUMNS = pa.schema(
    [
        *(("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("raw", pa.binary())),
        *(("list", pa.list_(pa.int32())), ("pair", pa.struct([("x", pa.int32()), ("raw", pa.binary())]))),
    ]
)


@pytest.mark.parametrize(
    ("arguments", "column"),
    [
        ({"keys": ["raw"]}, "raw"),
        ({"keys": ["id", "list"]}, "list"),
        ({"keys": ["pair"]}, "pair"),
        ({"keys": ["pair.raw"]}, "pair.raw"),
        ({"partitions": ["raw"]}, "raw"),
        ({"partitions": ["pair.raw"]}, "pair.raw"),
    ],
)
def test_fields_that_make_no_key_are_refused_at_creation(
    arguments: dict[str, list[str]], column: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaMismatchError, match=f"column '{column}' of type .* cannot be part of a record key"):
        create(tmp_path, COLUMNS, **arguments)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("column", ["list", "pair"])
def test_an_ordering_field_without_an_order_is_refused_at_creation(column: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match=f"ordering field '{column}' is .*no order"):
        create(tmp_path, COLUMNS, ordering=[column])
    assert not (tmp_path / "t").exists()


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    """Once in, once rewritten, once carried over: the values of each type are the same in the table."""
    names = [f"c{number}" for number in range(len(KEPT))]
    stored = [(name, line.stored) for name, (_, line) in zip(names, KEPT, strict=True)]
    table = lakeindex.open_table(str(create(tmp_path, pa.schema([("id", pa.int64()), ("v", pa.int64()), *stored]))))
    longest = max(len(line.values) for _, line in KEPT)
    columns = [array_of((*line.values, *[None] * (longest - len(line.values))), kind) for kind, line in KEPT]
    numbers = pa.array(range(longest), pa.int64())
    table.upsert(pa.table([numbers, numbers, *columns], names=["id", "v", *names]))
    first = [column[:1] for column in columns]
    assert table.upsert(pa.table([numbers[:1], pa.array([9]), *first], names=["id", "v", *names])).updates == 1
    rows = table.read(meta=True).sort_by("id")
    wrong = {
        f"{kind}": (found, wanted)
        for name, (kind, _), column in zip(names, KEPT, columns, strict=True)
        if (found := list(map(repr, instants(rows.column(name))))) != (wanted := list(map(repr, instants(column))))
    }
    assert not wrong, wrong


NOT_NULL = pa.field("item", pa.int32(), nullable=False)


@pytest.mark.parametrize(
    ("kind", "values", "what"),
    [
        (pa.list_(NOT_NULL), [[1], None, [2, None]], "a list's element"),
        (pa.map_(pa.string(), NOT_NULL), [[("a", 1)], None, [("b", None)]], "a map's value"),
        (pa.struct([NOT_NULL.with_name("x")]), [{"x": 1}, {"x": None}], "field 'x'"),
        (pa.list_(pa.struct([NOT_NULL.with_name("x")])), [[{"x": 1}], [None], [{"x": None}]], "field 'x'"),
        (pa.list_(pa.list_(NOT_NULL)), [[[1]], [None], [[None]]], "a list's element"),
    ],
)
def test_a_null_inside_where_the_table_has_none_is_named(kind: pa.DataType, values: list[object], what: str) -> None:
    """It ended as an error of Arrow's, when the file was written."""
    schema = pa.schema([("v", kind)])
    loose = _loose(kind)
    with pytest.raises(SchemaMismatchError, match=rf"'v' is .*({what}|x.* has nulls)"):
        fit_batch(pa.table({"v": pa.array(values, loose)}), schema)
    good = pa.table({"v": pa.array(values[:-1], loose)})
    assert fit_batch(good, schema).columns["v"].to_pylist() == values[:-1]


def test_what_lies_under_a_null_map_is_no_value() -> None:
    """Entries of a map that is null may be left in the buffers: nobody reads them."""
    kind = pa.map_(pa.string(), NOT_NULL)
    keys, items, nulls = pa.array(["a", "b"]), pa.array([1, None], pa.int32()), pa.array([False, True])
    hidden = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), keys, items, type=kind, mask=nulls)
    found = fit_batch(pa.table({"v": hidden}), pa.schema([("v", kind)])).columns["v"]
    assert found.to_pylist() == [[("a", 1)], None]


def _loose(kind: pa.DataType) -> pa.DataType:
    """The same with nulls everywhere."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _loose(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_loose(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _loose(field.type)) for field in kind])
    return kind


@pytest.mark.parametrize("kind", [pa.date64(), pa.list_(pa.date64()), pa.struct([("x", pa.date64())])], ids=str)
def test_a_time_within_a_day_is_no_date(kind: pa.DataType) -> None:
    noon = pa.array([43_200_000], pa.int64()).cast(pa.date64())
    array = noon if kind == pa.date64() else pa.ListArray.from_arrays([0, 1], noon)
    if pa.types.is_struct(kind):
        array = pa.StructArray.from_arrays([noon], ["x"])
    with pytest.raises(SchemaMismatchError, match=r"column 'c' is .*would lose data"):
        fit_batch(pa.table({"c": array}), pa.schema([("c", storable_type(kind))]))


@pytest.mark.parametrize(
    ("name", "better"),
    [("unit price", "unit_price"), ("a.b", "a_b"), ("2nd", "_2nd"), ("größe (cm)", "gr_e_cm"), ("%", "column")],
)
def test_a_name_that_avro_has_not_is_refused_with_one_that_it_has(name: str, better: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatchError, match=f"column '{re.escape(name)}' is not a valid Avro name") as refused:
        create(tmp_path, pa.schema([("id", pa.string()), (name, pa.int32())]))
    assert f"to {better!r} for example" in (refused.value.hint or "")
    create(tmp_path, pa.schema([("id", pa.string()), (better, pa.int32())]))


def _arrays() -> st.SearchStrategy[pa.Array]:
    """Arrays of types that a table has no type of its own for, nested, with nulls, cut out of longer ones."""
    microseconds = st.integers(-(2**50), 2**50)
    leaves: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
        (pa.int32(), st.integers(-9, 9)),
        (pa.float16(), st.sampled_from([0.5, -2.0, 65504.0])),
        (pa.uint64(), st.integers(0, 2**63 - 1)),
        (pa.binary_view(), st.binary(max_size=20)),
        (pa.binary(2), st.binary(min_size=2, max_size=2)),
        (pa.date64(), st.dates()),
        (pa.duration("us"), microseconds),
        (pa.duration("ns"), microseconds.map(lambda one: one * 1000)),
        (pa.duration("s"), st.integers(-(10**9), 10**9)),
    ]
    kinds = st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            inner.map(lambda one: (pa.list_view(one[0]), st.lists(_or_null(one[1]), max_size=3))),
            inner.map(lambda one: (pa.large_list_view(one[0]), st.lists(_or_null(one[1]), max_size=3))),
            inner.map(lambda one: (pa.list_(one[0], 2), st.lists(_or_null(one[1]), min_size=2, max_size=2))),
            inner.map(lambda one: (pa.list_(one[0]), st.lists(_or_null(one[1]), max_size=3))),
            inner.map(lambda one: (pa.struct([("x", one[0])]), st.fixed_dictionaries({"x": _or_null(one[1])}))),
            inner.map(
                lambda one: (
                    pa.map_(pa.string(), one[0]),
                    st.dictionaries(st.text(max_size=2), _or_null(one[1]), max_size=3).map(lambda d: list(d.items())),
                )
            ),
        ),
        max_leaves=3,
    )

    def made(pair: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[pa.Array]:
        values = st.lists(_or_null(pair[1]), max_size=6)
        return st.builds(lambda found, cut: pa.array(found, pair[0])[cut:], values, st.integers(0, 3))

    return kinds.flatmap(made)


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def _micro(value: Any) -> Any:
    """Durations as their microseconds, whatever they are in."""
    if isinstance(value, dict):
        return {name: _micro(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_micro(one) for one in value)
    if hasattr(value, "to_pytimedelta"):
        value = value.to_pytimedelta()
    return value // dt.timedelta(microseconds=1) if isinstance(value, dt.timedelta) else value


@given(_arrays())
def test_values_are_the_same_in_the_type_that_stands_for_theirs(array: pa.Array) -> None:
    found = storable_column(pa.chunked_array([array]))
    found.validate(full=True)
    assert found.type == storable_type(array.type) == storable_type(found.type)
    assert found.to_pylist() == _micro(array.to_pylist())
    schema_to_avro(pa.schema([("c", found.type)]), "t")  # a table has it
