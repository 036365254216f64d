"""Encodings of Arrow, Polars and pandas: dictionaries, runs, views, extensions, in whatever depth and chunk, are the
values that they stand for.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import InputError, SchemaMismatchError, UsageError
from lakeindex.stages.stage_input import addressed
from lakeindex.write.types.type_fit import decoded_table, storable_column, storable_type
from tests.builders import Row, batch_of, make_table

TEXTS = [pa.array(["x", "y", None]), pa.array(["y", "z", "x"])]
IDS = [pa.array(["a", "b", "c"]), pa.array(["d", "e", "f"])]
WANTED = [value for one in TEXTS for value in one.to_pylist()]


def runs(texts: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(texts) + 1), pa.int32()), texts)


ENCODINGS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "dictionary": lambda texts: texts.dictionary_encode(),
    "dictionary of views": lambda texts: pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2]), texts.cast(pa.string_view())
    ),
    "runs": runs,
    "runs of a dictionary": lambda texts: runs(texts.dictionary_encode()),
    "view": lambda texts: texts.cast(pa.string_view()),
    "large": lambda texts: texts.cast(pa.large_string()),
    "extension": lambda texts: pa.ExtensionArray.from_storage(pa.json_(), texts),
}
NESTS: dict[str, tuple[pa.DataType, Callable[[pa.Array], pa.Array], Callable[[Any], Any]]] = {
    "plain": (pa.string(), lambda one: one, lambda one: one),
    "list": (
        pa.list_(pa.string()),
        lambda one: pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), one),
        lambda one: [one],
    ),
    "large list": (
        pa.list_(pa.string()),
        lambda one: pa.LargeListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int64()), one),
        lambda one: [one],
    ),
    "fixed list": (
        pa.list_(pa.string()),
        lambda one: pa.FixedSizeListArray.from_arrays(one, 1),
        lambda one: [one],
    ),
    "struct": (
        pa.struct([("f", pa.string())]),
        lambda one: pa.StructArray.from_arrays([one], names=["f"]),
        lambda one: {"f": one},
    ),
    "map": (
        pa.map_(pa.string(), pa.string()),
        lambda one: pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["k", "k", "k"]), one),
        lambda one: [("k", one)],
    ),
}
FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "list of batches": lambda rows: rows.to_batches(),
    "generator": lambda rows: iter(rows.to_batches()),
    "reader": lambda rows: rows.to_reader(),
}


def piece(number: int) -> pa.Table:
    """A column for each encoding in each nest, with dictionaries of its own."""
    columns = {
        f"{nest} in {name}": nested(encode(TEXTS[number]))
        for nest, (_, nested, _) in NESTS.items()
        for name, encode in ENCODINGS.items()
    }
    return pa.table({"id": IDS[number], **{name.replace(" ", "_"): column for name, column in columns.items()}})


def test_encoded_values_are_those_that_they_stand_for(tmp_path: Path) -> None:
    """Two chunks with different dictionaries: Arrow's files could not hold them."""
    columns = [
        (f"{nest} in {name}".replace(" ", "_"), kind) for nest, (kind, _, _) in NESTS.items() for name in ENCODINGS
    ]
    rows = pa.concat_tables([piece(0), piece(1)])
    table = lakeindex.create_table(tmp_path / "t", pa.schema([("id", pa.string()), *columns]), key="id")
    for form, made in FORMS.items():
        assert table.upsert(made(rows)).rows_in == 6, form
        found = table.read(meta=False).sort_by("id")
        for name, _ in columns:
            wanted = NESTS[name.partition("_in_")[0].replace("_", " ")][2]
            assert found[name].to_pylist() == [wanted(value) for value in WANTED], (form, name)
        table.truncate()


def test_slices_of_encoded_columns_are_decoded_as_they_are() -> None:
    failed = []
    for nest, (_, nested, _) in NESTS.items():
        for name, encode in ENCODINGS.items():
            whole = nested(encode(TEXTS[0]))
            for part in (whole, whole.slice(1), whole.slice(1, 1), whole.slice(3)):
                done = storable_column(pa.chunked_array([part]))
                done.validate(full=True)
                if done.to_pylist() != part.to_pylist() or done.type != storable_type(part.type):
                    failed.append((nest, name, part.to_pylist(), done.to_pylist()))
                rows = pa.table({"v": part})
                assert decoded_table(rows)["v"].to_pylist() == part.to_pylist()
    assert failed == []


def test_null_parents_hide_what_is_below_them() -> None:
    inner = pa.array(["x", "y", "z"]).dictionary_encode()
    mask = pa.array([False, True, False])
    for one in (
        pa.StructArray.from_arrays([inner], names=["f"], mask=mask),
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), inner, mask=mask),
        pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["k"] * 3), inner, mask=mask),
    ):
        assert storable_column(pa.chunked_array([one])).to_pylist() == one.to_pylist()


CATEGORIES = pl.DataFrame({"id": ["a", "b", "c"], "v": ["x", "y", None]})
OF_LIBRARIES: dict[str, Callable[[], Any]] = {
    "categorical": lambda: CATEGORIES.with_columns(pl.col("v").cast(pl.Categorical)),
    "enum": lambda: CATEGORIES.with_columns(pl.col("v").cast(pl.Enum(["x", "y"]))),
    "categorical key": lambda: CATEGORIES.with_columns(pl.col("id").cast(pl.Categorical)),
    "lazy": lambda: CATEGORIES.lazy().with_columns(pl.all().cast(pl.Categorical)),
    "pandas": lambda: CATEGORIES.to_pandas().astype("category"),
    "pandas index": lambda: CATEGORIES.to_pandas().astype("category").set_index("id"),
    "pandas of Arrow": lambda: CATEGORIES.to_pandas().astype("string[pyarrow]"),
}


def test_categories_of_polars_and_pandas(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.string()), ("v", pa.string())])
    table = lakeindex.create_table(tmp_path / "t", columns, key="id")
    for name, made in OF_LIBRARIES.items():
        table.upsert(made())
        assert table.read(meta=False).sort_by("id")["v"].to_pylist() == ["x", "y", None], name
        assert (
            lakeindex.create_table(tmp_path / name.replace(" ", "_"), like=made(), key="id").schema.types
            == columns.types
        ), name


def test_a_parquet_file_whose_metadata_says_dictionary(tmp_path: Path) -> None:
    nested = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), TEXTS[1].dictionary_encode())
    pq.write_table(pa.table({"id": IDS[0], "v": nested}), tmp_path / "b.parquet")
    columns = pa.schema([("id", pa.string()), ("v", pa.list_(pa.string()))])
    table = lakeindex.create_table(tmp_path / "t", columns, key="id")
    table.upsert(tmp_path / "b.parquet")
    assert table.read(meta=False).sort_by("id")["v"].to_pylist() == [["y"], ["z"], ["x"]]


@pytest.mark.parametrize("at_once", [None, 2], ids=["in one wave", "spilled"])
@pytest.mark.parametrize("stays", [False, True], ids=["staged", "in its files"])
def test_parquet_files_whose_metadata_says_how_values_were_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool, at_once: int | None
) -> None:
    """tpchgen writes its texts as views, of which Arrow takes no rows: a load that left them in their files failed."""
    monkeypatch.setattr(addressed, "LEAST_BYTES", 0 if stays else 2**60)
    if at_once is not None:
        monkeypatch.setattr("lakeindex.stages.merge_write.stage.rows_at_once", lambda *_: at_once)
    written = [name for name in piece(0).column_names if "_in_runs" not in name and "_of_views" not in name]
    columns = [pa.field(name, NESTS[name.partition("_in_")[0].replace("_", " ")][0]) for name in written[1:]]
    files = []
    for number in (0, 1):
        keys = pa.array(["f", "e", "d"] if number else ["a", "b", "c"], pa.string_view())
        rows = piece(number).select(written).set_column(0, "id", keys)
        rows = rows.append_column("day", pa.array(["b", "a", "b"]).dictionary_encode())
        rows = rows.append_column("version", pa.array(["1", "2", "3"], pa.string_view()))
        files.append(tmp_path / f"{number}.parquet")
        pq.write_table(rows, files[-1])
    schema = pa.schema([("id", pa.string()), *columns, ("day", pa.string()), ("version", pa.string())])
    table = lakeindex.create_table(tmp_path / "t", schema, key="id", partition="day", ordering="version")
    assert table.upsert(files).fates == {"inserts": 6}
    found = table.read(meta=False).sort_by("id")
    assert found["day"].to_pylist() == list("babbab")
    for name in written[1:]:
        wanted = NESTS[name.partition("_in_")[0].replace("_", " ")][2]
        assert found[name].to_pylist() == [wanted(value) for value in (*WANTED[:3], *WANTED[:2:-1])], name


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: pl.DataFrame({"id": ["a"], "v": [object()]}), "column v of the frame is Object"),
        (lambda: pl.DataFrame({"id": ["a"], "v": [1]}, schema_overrides={"v": pl.Int128}), "v of the frame is Int128"),
        (lambda: pd.DataFrame({"id": ["a"], "v": pd.period_range("2026-01", periods=1, freq="M")}), "types differ"),
        (lambda: pd.DataFrame({"id": ["a"], "v": pd.interval_range(0, 1)}), "types differ"),
        (lambda: pd.DataFrame({"id": ["a"], "v": [1j]}), "column v with type complex128"),
        (lambda: pd.DataFrame([["a", "x", "y"]], columns=["id", "v", "v"]), "Duplicate column names"),
        (
            lambda: pa.table(
                {"id": ["a"], "v": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=1).bytes], pa.binary(16)))}
            ),
            "arrow.uuid",
        ),
    ],
)  # fmt: skip
def test_what_no_table_has_a_type_for_is_refused_by_name(tmp_path: Path, made: Callable[[], Any], said: str) -> None:
    columns = pa.schema([("id", pa.string()), ("v", pa.string())])
    table = lakeindex.create_table(tmp_path / "t", columns, key="id")
    with pytest.raises((InputError, SchemaMismatchError), match=said) as caught:
        table.upsert(made())
    assert caught.value.hint
    assert table.history() == ()


def test_bits_of_a_byte_each_are_booleans() -> None:
    bits = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None, 5], pa.int8()))
    assert storable_column(pa.chunked_array([bits])).to_pylist() == [True, False, None, True]
    assert pc.sum(storable_column(pa.chunked_array([bits.slice(1)]))).as_py() == 1


ROWS = batch_of([Row("a", "x", 1, "1"), Row("b", "y", 1, "2")]).drop_columns(["_hoodie_is_deleted"])


class Again:
    """What has a stream that can be asked for more than once."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return ROWS.slice(0, 0).__arrow_c_stream__(requested_schema)


class Once:
    """What has a stream once, and says so of the second time."""

    def __init__(self, error: type[Exception]) -> None:
        self._errors = iter([None, error("consumed")])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        error = next(self._errors)
        if error is not None:
            raise error
        return ROWS.slice(0, 0).__arrow_c_stream__(requested_schema)


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result")
def test_a_stream_that_is_used_up_is_an_error_and_no_run_of_no_rows(tmp_path: Path) -> None:
    import duckdb
    import pyarrow.dataset as ds

    table = make_table(tmp_path / "t")
    reader = ROWS.to_reader()
    assert table.upsert(reader, batch_id="b").inserts == 2
    generator = iter(ROWS.to_batches())
    list(generator)
    scanner = ds.Scanner.from_batches(ROWS.to_reader())
    scanner.to_table()
    connection = duckdb.connect()
    connection.execute("select 1 as id").fetchall()
    stream = pa.RecordBatchReader.from_stream(ROWS.to_reader())
    stream.read_all()
    for used in (reader, generator, scanner, connection, stream, ROWS.slice(0, 0).to_reader()):
        for again in ("b", "new"):  # the retry of a batch that is committed, and another one
            with pytest.raises(InputError) as caught:
                table.upsert(used, batch_id=again)
            assert caught.value.hint, used
    for error in (RuntimeError, ValueError, OSError):
        with pytest.raises(InputError, match="the Once gave no record batch"):
            table.upsert(Once(error))
    assert len(table.history()) == 1
    nothing = (
        ROWS.slice(0, 0),
        ds.dataset(ROWS.slice(0, 0)),
        pl.from_arrow(ROWS).lazy().filter(pl.lit(False)),
        Again(),
    )  # type: ignore[union-attr] # a frame
    for empty in nothing:
        assert table.upsert(empty).rows_in == 0, empty


def test_every_argument_that_is_a_path_takes_one(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    table = lakeindex.create_table(
        tmp_path / "t", ROWS.schema, key="id", partition="day", ordering="ts", index="RECORD_INDEX"
    )
    metrics = {"lakeindex.metrics.textfile": tmp_path / "m.prom"}
    done = table.upsert(ROWS, checkpoints=runs, options=metrics)
    assert table.report(done, checkpoints=runs).run.run_id == done.run_id
    assert table.report(runs / done.run_id).run.run_id == done.run_id
    assert table.report_history(checkpoints=runs).commits
    assert table.compare(done, done.run_id, checkpoints=runs).figures
    assert table.advise(ROWS, checkpoints=runs).to_json()
    assert table.update(set={"v": "'z'"}, where="id = 'a'", checkpoints=runs).updates == 1
    assert table.replace_where(ROWS, where="id = 'a' or id = 'b'", checkpoints=runs).updates == 2
    assert table.delete(ROWS.slice(1), checkpoints=runs).deletes == 1
    assert table.index_build(checkpoints=runs).to_json()
    assert table.maintain(checkpoints=runs).steps
    assert table.delete_partitions(["x"], checkpoints=runs).instant
    assert table.truncate(checkpoints=runs).instant
    assert not (tmp_path / "t.lakeindex").exists()
    assert table.applied_until(tmp_path / "t") is None
    for wrong in (7, b"runs", ["runs"]):
        with pytest.raises(UsageError, match="run folders cannot be at"):
            table.upsert(ROWS, checkpoints=wrong)  # type: ignore[arg-type] # that is the point
