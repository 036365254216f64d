"""CSV and JSON lines: what their texts and numbers are in the table, what is null, and what is told of bad values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import InputError, OptionError, QuarantineExceededError, SchemaMismatchError
from lakeindex.options.types import CsvFormat, InputFormat
from lakeindex.run.input_rows import repeated_text
from lakeindex.stages.stage_input import text_files
from lakeindex.stages.stage_input.input_pieces import read_pieces, read_split
from lakeindex.stages.stage_input.inputs import PACKINGS, Split, find_inputs
from lakeindex.stages.stage_input.text_files import BAD_VALUE, values_of_texts

UTC = dt.UTC
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 123000)  # noqa: DTZ001 - a local timestamp
BAD = object()
TEXTS: tuple[tuple[pa.DataType, Sequence[tuple[str, Any]]], ...] = (
    (pa.int64(), [("9007199254740993", 2**53 + 1), ("9.0", 9), (" 7 ", 7), ("1e3", 1000), ("-5", -5), ("+5", 5)]),
    (pa.int64(), [("9223372036854775807", 2**63 - 1), ("9223372036854775808", BAD), ("1.5", BAD), ("x", BAD)]),
    (pa.int64(), [("0x10", BAD), ("-0XF", BAD), ("0xFFFFFFFFFFFFFFFF", BAD), ("010", 10)]),
    (pa.int32(), [("2147483647", 2**31 - 1), ("2147483648", BAD), ("true", BAD), ("1 2", BAD), ("", None)]),
    (pa.float64(), [("0.1", 0.1), ("inf", float("inf")), ("-Infinity", float("-inf")), ("1e400", BAD), ("1,5", BAD)]),
    (pa.float32(), [("0.5", 0.5), ("1e39", BAD), ("", None)]),
    (pa.bool_(), [("true", True), ("FALSE", False), ("1", True), ("0", False), ("yes", BAD), ("", None)]),
    (pa.date32(), [("2026-01-02", dt.date(2026, 1, 2)), ("2026-13-01", BAD), ("02.01.2026", BAD)]),
    (pa.timestamp("us"), [("2026-01-02T12:00:00.123", NOON), ("2026-01-02 12:00:00.123000000", NOON)]),
    (pa.timestamp("us"), [("2026-01-02T12:00:00Z", BAD), ("2026-01-02T12:00:00.1234567", BAD), ("1767355200000", BAD)]),
    (pa.timestamp("us", "UTC"), [("2026-01-02T12:00:00.123Z", NOON.replace(tzinfo=UTC))]),
    (pa.timestamp("us", "UTC"), [("2026-01-02T14:00:00.123+02:00", NOON.replace(tzinfo=UTC))]),
    (pa.timestamp("us", "UTC"), [("2026-01-02 12:00:00.123", NOON.replace(tzinfo=UTC)), ("noon", BAD)]),
    (pa.timestamp("us", "UTC"), [("2026-01-02", dt.datetime(2026, 1, 2, tzinfo=UTC))]),
    (pa.decimal128(38, 10), [("12345678901234567890123456.7890123456", Decimal("12345678901234567890123456.7890123456"))]),
    (pa.decimal128(5, 2), [("1.25", Decimal("1.25")), ("1.255", BAD), ("12345.6", BAD), ("1e2", Decimal(100))]),
    (pa.string(), [("NA", "NA"), ("null", "null"), (" x ", " x "), ("", "")]),
    (pa.binary(), [("é", "é".encode()), ("", b"")]),
    (pa.time64("us"), [("12:34:56.5", dt.time(12, 34, 56, 500000)), ("25:00", BAD)]),
)  # fmt: skip


def test_texts_are_values_and_what_is_none_is_told_by_its_row() -> None:
    for kind, cases in TEXTS:
        values, bad = values_of_texts(pa.array([text for text, _ in cases]), kind)
        assert values.type == kind
        wanted = [None if value is BAD else value for _, value in cases]
        assert values.to_pylist() == wanted, (kind, values)
        assert set(bad) == {row for row, (_, value) in enumerate(cases) if value is BAD}, (kind, bad)


NUMBERS: tuple[tuple[pa.DataType, str, Any], ...] = (
    (pa.int64(), "9007199254740993", 2**53 + 1),
    (pa.int64(), "9.0", 9),
    (pa.int64(), "1.5", BAD),
    (pa.int64(), "true", BAD),
    (pa.int64(), "[1]", BAD),
    (pa.int64(), '{"a": 1}', BAD),
    (pa.float64(), "1", 1.0),
    (pa.float64(), "1e400", BAD),
    (pa.float64(), "Infinity", float("inf")),
    (pa.float32(), "1e39", BAD),
    (pa.float32(), "Infinity", float("inf")),
    (pa.list_(pa.float32()), "[0.5, 1e39]", BAD),
    (pa.struct([("x", pa.float32())]), '{"x": -1e39}', BAD),
    (pa.decimal128(38, 2), "123456789012345678901234567890123456.78", Decimal("123456789012345678901234567890123456.78")),
    (pa.decimal128(38, 2), "0.125", BAD),
    (pa.bool_(), "true", True),
    (pa.bool_(), "1", BAD),
    (pa.date32(), "20455", dt.date(2026, 1, 2)),
    (pa.date32(), "1.5", BAD),
    (pa.timestamp("us", "UTC"), "1767355200123", NOON.replace(tzinfo=UTC)),
    (pa.timestamp("us", "UTC"), "1767355200123.0", NOON.replace(tzinfo=UTC)),
    (pa.timestamp("us"), "1767355200123", NOON),
    (pa.timestamp("us"), "-1.5", dt.datetime(1969, 12, 31, 23, 59, 59, 998500)),  # noqa: DTZ001 - a local one
    (pa.timestamp("us"), "1e30", BAD),
    (pa.string(), "5", BAD),
    (pa.string(), r'"\ud83d\ude00 \u00e9"', "\U0001f600 é"),
    (pa.string(), r'"cut \ud83d"', BAD),
    (pa.list_(pa.string()), r'["\ude00"]', BAD),
    (pa.string(), "true", BAD),
    (pa.string(), "[]", BAD),
    (pa.binary(), "5", BAD),
    (pa.map_(pa.string(), pa.int64()), '{"a": 9007199254740993, "b": null}', [("a", 2**53 + 1), ("b", None)]),
    (pa.map_(pa.string(), pa.int64()), '[{"key": "a", "value": 1}]', [("a", 1)]),
    (pa.map_(pa.string(), pa.int64()), '[["a", 1.0]]', [("a", 1)]),
    (pa.map_(pa.string(), pa.int64()), '{"a": "x"}', BAD),
    (pa.map_(pa.string(), pa.int64()), "[1]", BAD),
    (pa.map_(pa.string(), pa.int64()), '[{"key": "a"}]', BAD),
    (pa.map_(pa.string(), pa.int64()), '[{"key": "a", "value": 1, "x": 2}]', BAD),
    (pa.map_(pa.string(), pa.int64()), '[["a", 1, 2]]', BAD),
    (pa.map_(pa.string(), pa.int64()), "[[1, 1]]", BAD),
    (pa.map_(pa.string(), pa.date32()), '{"a": "2026-01-02"}', [("a", dt.date(2026, 1, 2))]),
    (pa.list_(pa.date32()), '["2026-01-02", null]', [dt.date(2026, 1, 2), None]),
    (pa.list_(pa.date32()), '["x"]', BAD),
    (pa.list_(pa.date32()), '"2026-01-02"', BAD),
    (pa.list_(pa.int64()), "[1, 2.0]", [1, 2]),
    (pa.struct([("x", pa.int64()), ("t", pa.timestamp("us"))]), '{"t": "2026-01-02T12:00:00.123"}', {"x": None, "t": NOON}),
    (pa.struct([("x", pa.int64())]), '{"x": "a"}', BAD),
    (pa.struct([("x", pa.int64())]), "[]", BAD),
)  # fmt: skip


def table_of(folder: Path, columns: Sequence[tuple[str, pa.DataType]]) -> Any:
    return lakeindex.create_table(folder, pa.schema([("id", pa.string()), *columns]), key="id")


def pieces_of(path: Path, schema: pa.Schema, limit: int = 2**40, csv: CsvFormat | None = None) -> list[pa.Table]:
    (file,) = find_inputs((str(path),), InputFormat.AUTO)
    return list(read_pieces(Split(file), schema, InputFormat.AUTO, limit, csv=csv or CsvFormat()))


def test_json_takes_numbers_as_they_are_and_whatever_csv_takes_as_text(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    of_texts = ((kind, json.dumps(text), value) for kind, cases in TEXTS for text, value in cases)
    for kind, text, value in (*NUMBERS, *of_texts):
        path.write_text(f'{{"v": null}}\n{{"v": {text}}}\n{{}}\n', encoding="utf-8")
        (piece,) = pieces_of(path, pa.schema([("v", kind)]))
        assert piece["v"].type == kind, (kind, text)
        assert piece["v"].to_pylist() == [None, None if value is BAD else value, None], (kind, text)
        told = piece[BAD_VALUE].to_pylist() if BAD_VALUE in piece.column_names else [None] * 3
        assert [one is None for one in told] == [True, value is not BAD, True], (kind, text, told)


def test_what_a_folder_says_has_decimal_digits() -> None:
    assert repeated_text("10", pa.int64(), 2).to_pylist() == [10, 10]
    with pytest.raises(pa.ArrowInvalid, match="decimal digits"):
        repeated_text("0x10", pa.int64(), 2)


def test_csv_takes_every_text(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    for kind, cases in TEXTS:
        lines = [text if text == " x " else f'"{text}"' for text, _ in cases]
        path.write_text("v,w\n" + "".join(f"{line},1\n" for line in lines), encoding="utf-8")
        (piece,) = pieces_of(path, pa.schema([("v", kind)]))
        assert piece["v"].to_pylist() == [None if value is BAD else value for _, value in cases], kind


@pytest.mark.parametrize(
    ("line", "said"), [(r'{"v": "a", "n\ud83d": 1}', "is no text"), (r'{"v": "a", "n": "\ud83d"}', "surrogates")]
)
def test_a_half_of_a_character_in_what_is_no_value_of_a_column_is_told(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "b.json").write_text(line)
    with pytest.raises(InputError, match=said):
        pieces_of(tmp_path / "b.json", pa.schema([("v", pa.string())]))


WORDS = ["NA", "null", "NULL", "NaN", "nan", "N/A", "n/a", "#N/A", "None", "-", "\\N"]


def test_only_the_empty_field_is_null(tmp_path: Path) -> None:
    """Read as a whole and in pieces; as text and as key."""
    path = tmp_path / "b.csv"
    path.write_text("id,v\n" + "".join(f"{word},{word}\n" for word in WORDS) + 'empty,\nquoted,""\n', encoding="utf-8")
    schema = pa.schema([("id", pa.string()), ("v", pa.string())])
    for limit in (2**40, 20):
        rows = pa.concat_tables(pieces_of(path, schema, limit))
        assert rows["v"].to_pylist() == [*WORDS, None, ""]
    table = table_of(tmp_path / "t", [("v", pa.string())])
    assert table.upsert(path).inserts == len(WORDS) + 2


def test_options_say_how_csv_is_written(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text("a\tNA\t\nb\t'x\ty'\t''\nc\t''\tNULL\n")
    table = table_of(tmp_path / "t", [("v", pa.string()), ("w", pa.string())])
    options = {"lakeindex.csv.delimiter": "tab", "lakeindex.csv.quote": "'", "lakeindex.csv.header": False}
    table.upsert(path, options={**options, "lakeindex.csv.null": "NA, NULL"})
    rows = table.read(meta=False).sort_by("id").to_pylist()
    assert [(row["v"], row["w"]) for row in rows] == [(None, ""), ("x\ty", ""), ("", None)]
    table.upsert(path, options={**options, "lakeindex.csv.null": "NULL,"})
    assert table.read(meta=False).sort_by("id")["v"].to_pylist() == ["NA", "x\ty", ""]
    assert table.read(meta=False).sort_by("id")["w"].to_pylist() == [None, "", None]
    keys = tmp_path / "k.csv"
    keys.write_text("a\nb\n")
    assert table.delete(keys, options=options).deletes == 2
    semicolons = tmp_path / "s.csv"
    semicolons.write_text('id;v;w\nq;"a;b";\n')
    table.upsert(semicolons, options={"lakeindex.csv.delimiter": ";"})
    assert table.get(["q"]).rows["v"].to_pylist() == ["a;b"]
    plain = tmp_path / "p.csv"
    plain.write_text('id,v,w\nr,"a,\n')
    table.upsert(plain, options={"lakeindex.csv.quote": "none"})
    assert table.get(["r"]).rows["v"].to_pylist() == ['"a']
    for name, value in (("delimiter", ";;"), ("delimiter", ""), ("quote", "ab"), ("quote", ","), ("header", "maybe")):
        with pytest.raises(OptionError, match=f"lakeindex.csv.{name}") as caught:
            table.upsert(path, options={f"lakeindex.csv.{name}": value})
        assert caught.value.hint


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_bad_values_go_into_quarantine_and_are_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"b.{suffix}"
    rows: list[dict[str, Any]] = [{"id": "a", "n": 1, "d": "2026-01-02"}, {"id": "b", "n": "x", "d": "2026-01-02"}]
    rows += [{"id": "c", "n": 1, "d": "soon"}, {"id": "", "n": 1, "d": None}, {"id": "e", "n": None, "d": None}]
    lines = [json.dumps(row) for row in rows]
    if suffix == "csv":
        lines = ["id,n,d", *(",".join("" if one is None else str(one) for one in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    table = table_of(tmp_path / "t", [("n", pa.int64()), ("d", pa.date32())])
    with pytest.raises(QuarantineExceededError) as caught:
        table.upsert(path)
    assert f"row 1 of {path.as_uri()}: column 'n' cannot be" in str(caught.value)
    assert f"row 2 of {path.as_uri()}: column 'd' cannot be" in str(caught.value)
    kept = pq.read_table(str(caught.value.culprit).removeprefix("file://"))
    assert kept["_li_row"].to_pylist() == [1, 2, 3]
    assert kept["id"].to_pylist()[:2] == ["b", "c"]
    assert table.history() == ()
    done = table.upsert(path, max_quarantined=3, options={"lakeindex.schema.mode": "add"})
    assert (done.rows_in, done.quarantined, done.inserts) == (5, 3, 2)
    assert table.schema.names == ["id", "n", "d"]
    assert table.delete(path, max_quarantined=1).deletes == 2, "what other columns hold does not matter to a delete"


def test_a_bad_value_of_a_later_piece_has_its_row_of_the_file(tmp_path: Path) -> None:
    numbers = [str(n) for n in range(3000)]
    numbers[2900] = "x"
    (tmp_path / "b.csv").write_text("v\n" + "\n".join(numbers) + "\n")
    (tmp_path / "b.jsonl").write_text("".join(f'{{"v": "{number}"}}\n' for number in numbers))
    for name in ("b.csv", "b.jsonl"):
        pieces = pieces_of(tmp_path / name, pa.schema([("v", pa.int64())]), 4000)
        assert len(pieces) > 2
        row, found = 0, []
        for piece in pieces:
            if BAD_VALUE in piece.column_names:
                found += [row + n for n, one in enumerate(piece[BAD_VALUE].to_pylist()) if one is not None]
            row += piece.num_rows
        assert found == [2900]
        assert row == 3000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"id": "a"}]', r"row 0 is \[.*not an object"),
        ('{"id": "a"}\n5\n', "row 1 is 5, not an object"),
        ('{"id": "a"}\n{"id": "b" "v"}\n', "row 1 is no JSON"),
        ('{"id": "a"}\n{"id": "b", "id": "c"}\n', "'id' is there twice"),
    ],
)
def test_what_is_no_object_is_named_by_its_row(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "b.jsonl").write_text(content)
    with pytest.raises(InputError, match=said) as caught:
        pieces_of(tmp_path / "b.jsonl", pa.schema([("id", pa.string()), ("v", pa.map_(pa.string(), pa.string()))]))
    assert "b.jsonl" in str(caught.value.culprit)


RAGGED = (0, 3, 4, 7, 11, 12)
"""Rows that have too few or too many fields: the first, two in a row, the last ones."""


@pytest.mark.parametrize(("limit", "block"), [(2**40, 2**20), (20, 2**20), (20, 40)])
@pytest.mark.parametrize("header", [True, False])
def test_rows_with_too_few_or_too_many_fields_are_bad_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, block: int, header: bool
) -> None:
    """Each at its place, with its number and its text; what is around them is as it was."""
    monkeypatch.setattr(text_files, "_CSV_BLOCK", block)
    lines = [
        ("q,r,s" if number % 2 else "q") if number in RAGGED else f'"a\n{number}",{number}' for number in range(13)
    ]
    path = tmp_path / "b.csv"
    path.write_text("\n".join([*(["id,v"] if header else []), *lines]) + "\n")
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    form = CsvFormat(header=header)
    (file,) = find_inputs((f"file://{path}",), InputFormat.AUTO)
    pieces = list(text_files.read_csv(file, schema, limit, form))
    first, said, rows = 0, {}, []
    for piece in pieces:
        plain, problems = text_files.without_bad_values(piece, file, first)
        said |= {first + row: text for row, text in enumerate(problems.to_pylist()) if text is not None}
        rows += plain.to_pylist()
        first += piece.num_rows
    assert [row["v"] for row in rows] == [None if number in RAGGED else number for number in range(13)]
    assert [row["id"] for row in rows] == [None if number in RAGGED else f"a\n{number}" for number in range(13)]
    assert sorted(said) == list(RAGGED)
    for number, text in said.items():
        fields, line = (3, "q,r,s") if number % 2 else (1, "q")
        assert text.startswith(f"row {number} of ")
        assert text.endswith(f"b.csv: {fields} fields, not 2: {line!r}")
    assert text_files.csv_columns(file, schema, form).names == ["id", "v"]


def test_a_file_of_nothing_but_ragged_rows(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("id,v\na\nb,1,2\n")
    for limit in (2**40, 5):
        (file,) = find_inputs((f"file://{tmp_path}/b.csv",), InputFormat.AUTO)
        schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
        assert sum(piece.num_rows for piece in text_files.read_csv(file, schema, limit, CsvFormat())) == 2


@pytest.mark.parametrize("packing", ["", ".gz", ".zst", ".bz2"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_every_row_is_read_wherever_the_limit_of_a_piece_lies(tmp_path: Path, kind: str, packing: str) -> None:
    """Just before the end of the text, at it, beyond it, and among its rows."""
    lines = [f"k{n:03d},{n}" if kind == "csv" else f'{{"id": "k{n:03d}", "v": {n}}}' for n in range(100)]
    text = "\n".join([*(["id,v"] if kind == "csv" else []), *lines]).encode() + b"\n"
    path = tmp_path / f"b.{kind}{packing}"
    with pa.output_stream(path, compression=PACKINGS.get(packing)) as out:
        out.write(text)
    schema = pa.schema([("id", pa.string()), ("v", pa.int64())])
    size = len(text)
    for limit in (1, 7, size // 2, size - len(lines[-1]) - 1, size - 1, size, size + 1, path.stat().st_size):
        rows = pa.concat_tables(pieces_of(path, schema, limit))
        assert rows.column("v").to_pylist() == list(range(100)), limit


def test_ragged_rows_go_into_quarantine_and_the_others_into_the_table(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", [("v", pa.int64())])
    path = tmp_path / "b.csv"
    path.write_text("id,v\na,1\nb\nc,3\nd,4,5\n")
    with pytest.raises(QuarantineExceededError, match=r"row 1 of .*b\.csv: 1 fields, not 2: 'b'"):
        table.upsert(path)
    run = table.upsert(path, max_quarantined=2)
    assert run.fates == {"quarantined": 2, "inserts": 2}
    assert sorted(table.read(meta=False)["id"].to_pylist()) == ["a", "c"]


@pytest.mark.parametrize("kind", ["STRUCT<x: INT>", "ARRAY<INT>", "MAP<STRING, INT>"])
def test_a_column_of_nested_values_in_csv_is_refused_with_a_cure(tmp_path: Path, kind: str) -> None:
    table = lakeindex.create_table(tmp_path / "t", f"id STRING, n {kind}", key="id")
    path = tmp_path / "b.csv"
    path.write_text('id,n\na,"[1]"\n')
    with pytest.raises(SchemaMismatchError) as refused:
        table.upsert(path, options={"lakeindex.schema.mode": "widen"})
    assert "column 'n'" in refused.value.message
    assert "CSV has no lists, maps and structs" in str(refused.value.hint)
    assert "JSON lines" in str(refused.value.hint)
    lines = {"S": '{"x": 1}', "A": "[1]", "M": '{"x": 1}'}
    path.write_text("id,n\nb,\n")
    assert table.upsert(path).inserts == 1  # an empty field is null
    (tmp_path / "b.jsonl").write_text(f'{{"id": "a", "n": {lines[kind[0]]}}}\n')
    assert table.upsert(tmp_path / "b.jsonl").inserts == 1  # the cure


def test_a_text_in_a_nested_column_of_json_is_told_however_its_name_is_written(tmp_path: Path) -> None:
    """Writers of JSON may escape every letter of a name; a null, and nothing, is null."""
    schema = pa.schema([("id", pa.string()), ("sizes", pa.map_(pa.string(), pa.int64()))])
    for name in ("sizes", "\\u0073izes"):
        path = tmp_path / "b.jsonl"
        path.write_text(f'{{"id": "a", "{name}": "x"}}\n{{"id": "b", "{name}": null}}\n{{"id": "c"}}\n')
        (piece,) = pieces_of(path, schema, 2**40)
        assert [text is not None for text in piece.column(BAD_VALUE).to_pylist()] == [True, False, False], name
        path.write_text(f'{{"id": "b", "{name}": null}}\n{{"id": "c"}}\n')
        (piece,) = pieces_of(path, schema, 2**40)
        assert piece.schema == schema, name
        assert piece.column("sizes").null_count == 2


def test_fields_that_the_table_lacks_have_the_same_types_either_way(tmp_path: Path) -> None:
    """A block that Arrow's reader takes, and one that has a value of another kind."""
    new = '"s": "t", "n": 5, "f": 1.5, "at": "2026-01-02T00:00:00", "l": [1], "o": {"x": 1}, "b": true'
    path = tmp_path / "b.jsonl"
    types = []
    for number in ("1", "1.0"):
        path.write_text(f'{{"n8": {number}, {new}}}\n', encoding="utf-8-sig")
        types.append(pieces_of(path, pa.schema([("n8", pa.int32())]))[0].schema)
    assert types[0] == types[1]
    table = table_of(tmp_path / "t", [("o", pa.struct([("x", pa.int64())])), ("d", pa.date32())])
    for date in ('"2026-01-02"', "20455"):
        path.write_text(f'{{"id": "a", "d": {date}, "o": {{"x": 1, "y": 2}}}}\n')
        with pytest.raises(SchemaMismatchError, match="the table has no field 'y' in it"):
            table.upsert(path)


def test_a_marked_row_is_deleted_whatever_text_says_so(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", [("v", pa.string())])
    for name, content in {
        "a.csv": "id,v,_hoodie_is_deleted\nx,1,true\ny,2,false\n",
        "b.jsonl": '{"id": "x", "_hoodie_is_deleted": "true"}\n{"id": "y", "_hoodie_is_deleted": null}\n',
        "c.jsonl": '{"id": "x", "_hoodie_is_deleted": true}\n{"id": "y"}\n',
    }.items():
        table.upsert(pa.table({"id": ["x", "y"], "v": ["", ""]}))
        (tmp_path / name).write_text(content)
        assert table.upsert(tmp_path / name).deletes == 1, name
    (tmp_path / "d.csv").write_text("id,more,_hoodie_is_deleted\ny,2,1\nz,3,0\n")
    done = table.upsert(
        tmp_path / "d.csv",
        options={"lakeindex.schema.mode": "add", "hoodie.write.set.null.for.missing.columns": "true"},
    )
    assert (done.deletes, done.inserts) == (1, 1)
    assert table.schema.names == ["id", "v", "more"]


def test_lines_end_inside_of_quotes(tmp_path: Path) -> None:
    """Also where a block of Arrow's ends."""
    path = tmp_path / "b.csv"
    text = "x\n" * 40_000
    path.write_text("id,v\n" + "".join(f'{n},"{text}"\n' for n in range(40)))
    (file,) = find_inputs((str(path),), InputFormat.AUTO)
    rows = read_split(Split(file), pa.schema([("id", pa.string()), ("v", pa.string())]), InputFormat.AUTO)
    assert rows["v"].to_pylist() == [text] * 40
