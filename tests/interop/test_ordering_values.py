"""Values of every type that can order rows: what we let win is what Hudi lets win, within a batch and against stored rows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer, keep_options
from tests.interop.rows import SIMPLE
from tests.unit.write.test_ordering import SCALES

pytestmark = pytest.mark.interop

OTHERS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [False, True]),
    (pa.timestamp("us", "UTC"), [-5, 0, 7]),
    (pa.int64(), [-1, 0, 1]),
]


def _create(path: Path, schema: pa.Schema) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(schema.empty_table(), path.with_name("like.parquet"))
    fields = ("--key", "id", "--partition", "region", "--ordering", "ts")
    answer = ours.command("create", path, "--like", path.with_name("like.parquet"), *fields)
    assert answer.code == 0, answer.text


def _rows(kind: pa.DataType, lines: list[tuple[str, Any, str]], *, deleted: bool = False) -> pa.Table:
    ids, ordering, texts = zip(*lines, strict=True)
    columns = {"id": list(ids), "region": ["eu"] * len(ids), "ts": pa.array(ordering, kind), "val": list(texts)}
    if deleted:
        columns["_hoodie_is_deleted"] = [text == "deleted" for text in texts]
    return pa.table(columns)


def _options(hudi: HudiServer) -> dict[str, str]:
    return {**keep_options(hudi.version), **SIMPLE.hudi_options(), "hoodie.datasource.write.operation": "upsert"}


def _contents(table: pa.Table) -> dict[str, str]:
    return dict(zip(table["id"].to_pylist(), table["val"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("kind", "values"), [*SCALES, *OTHERS], ids=lambda one: str(one) if isinstance(one, pa.DataType) else ""
)
def test_the_same_row_wins(hudi: HudiServer, kind: pa.DataType, values: list[Any], folder: Path) -> None:
    pairs = list(itertools.product(range(len(values)), repeat=2))
    batches = [
        [(f"s-{a}-{b}", values[a], "stored") for a, b in pairs],
        [(f"s-{a}-{b}", values[b], "incoming") for a, b in pairs],
        [(f"b-{a}-{b}", values[n], text) for a, b in pairs for n, text in ((a, "first"), (b, "second"))],
    ]
    expected = {f"s-{a}-{b}": "incoming" if b >= a else "stored" for a, b in pairs}
    expected |= {f"b-{a}-{b}": "second" if b >= a else "first" for a, b in pairs}
    path = {side: folder / side / SIMPLE.name for side in ("us", "Hudi")}
    for place in path.values():
        _create(place, _rows(kind, batches[0]).schema)
    for batch in batches:
        ours.upsert(path["us"], _rows(kind, batch))
        hudi.write(path["Hudi"], _rows(kind, batch), _options(hudi))
    assert _contents(hudi.read(path["Hudi"])) == expected
    assert _contents(hudi.read(path["us"])) == expected


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()], ids=str)
def test_a_delete_of_ordering_value_0(hudi: HudiServer, kind: pa.DataType, folder: Path) -> None:
    """We and 0.15 compare it like any other; so does 1.2, but in a 32-bit column, where 0 means that it always wins."""
    stored = [("one", 100, "stored"), ("zero", 100, "stored"), ("below", -5, "stored")]
    batch = [
        ("one", 1, "deleted"),
        ("zero", 0, "deleted"),
        ("below", 0, "deleted"),
        ("new", 5, "first"),
        ("new", 0, "deleted"),
    ]
    compared = {"one": "stored", "zero": "stored", "new": "first"}
    path = {side: folder / side / SIMPLE.name for side in ("us", "Hudi")}
    for place in path.values():
        _create(place, _rows(kind, stored, deleted=True).schema)
    for lines in (stored, batch):
        ours.upsert(path["us"], _rows(kind, lines, deleted=True))
        hudi.write(path["Hudi"], _rows(kind, lines, deleted=True), _options(hudi))
    assert _contents(hudi.read(path["us"])) == compared
    always_wins = hudi.version == "1.2.0" and kind == pa.int32()
    assert _contents(hudi.read(path["Hudi"])) == ({"one": "stored"} if always_wins else compared)


def test_of_several_ordering_fields_the_first_that_differs_decides(
    servers: dict[str, HudiServer], folder: Path
) -> None:
    """On tables that we and that Hudi made, written in turns: the same rows as if one of us had written them all."""
    hudi = servers["1.2.0"].writing(9)
    values = [(ts, seq) for ts in (1, 2) for seq in ("a", "é")]
    pairs = list(itertools.product(range(4), repeat=2))
    batches = [
        [(f"s-{a}-{b}", *values[a], "stored") for a, b in pairs],
        [(f"s-{a}-{b}", *values[b], "incoming") for a, b in pairs],
        [(f"b-{a}-{b}", *values[n], text) for a, b in pairs for n, text in ((a, "first"), (b, "second"))],
        [(f"s-{a}-{b}", *values[0], "least") for a, b in pairs] + [(f"s-{a}-{a}", 9, "", "last") for a in range(4)],
    ]
    expected = {f"s-{a}-{b}": "incoming" if b >= a else "stored" for a, b in pairs}
    expected |= {f"b-{a}-{b}": "second" if b >= a else "first" for a, b in pairs}
    expected |= {f"s-{a}-{a}": "last" for a in range(4)}
    fields = {"hoodie.table.ordering.fields": "ts,seq", "hoodie.datasource.write.precombine.field": "ts,seq"}
    options = {**keep_options("1.2.0", 9), **SIMPLE.hudi_options(), **fields}
    options |= {"hoodie.datasource.write.operation": "upsert"}
    for maker, first in itertools.product(("us", "Hudi"), (0, 1)):
        path = folder / f"{maker}-{first}" / SIMPLE.name
        path.parent.mkdir(parents=True, exist_ok=True)
        for number, lines in enumerate(batches):
            ids, ts, seq, texts = zip(*lines, strict=True)
            rows = pa.table(
                {"id": list(ids), "region": ["eu"] * len(ids), "ts": list(ts), "seq": list(seq), "val": list(texts)}
            )
            if number == 0 and maker == "us":
                pq.write_table(rows.schema.empty_table(), path.with_name("like.parquet"))
                named = ("--key", "id", "--partition", "region", "--ordering", "ts,seq", "--table-version", "9")
                answer = ours.command("create", path, "--like", path.with_name("like.parquet"), *named, "--no-metadata")
                assert answer.code == 0, answer.text
            if (number == 0 and maker == "Hudi") or (number + first) % 2:
                hudi.write(path, rows, options)
            else:
                ours.upsert(path, rows)
        assert _contents(hudi.read(path)) == expected
