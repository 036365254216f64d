"""Crafted and flipped bytes: an error of ours, within work that the bytes themselves bound."""

from __future__ import annotations

import io
import json
import random
import re
import signal
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.bloom import marks
from lakeindex.bloom.filter import FilterProblem, parse_filter
from lakeindex.errors import LakeIndexError, TableCorruptError
from lakeindex.parquet.footer_text import footer_text
from lakeindex.timeline.archived_timeline import format_avro_block, read_avro_records
from lakeindex.timeline.avro_instants import (
    CleanPlan,
    RollbackPlan,
    avro_record,
    format_clean_plan,
    format_rollback_plan,
    parse_clean_plan,
    parse_rollback_plan,
)
from lakeindex.timeline.avro_schemas import check_bounded
from tests.builders import Row, batch_of, make_table, rows_of

SECONDS = 5.0
FLIPS = 400
HUGE = (1 << 40, 1 << 62, (1 << 63) - 1, -1, -(1 << 40))


class TooLongError(Exception):
    """The work was not bounded."""


@contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Fail what takes longer."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def varint(number: int) -> bytes:
    """Avro's long."""
    coded = (number << 1) ^ (number >> 63)
    coded &= (1 << 64) - 1
    out = bytearray()
    while coded > 0x7F:
        out.append((coded & 0x7F) | 0x80)
        coded >>= 7
    return bytes([*out, coded])


def container(schema: Any, body: bytes, codec: str = "null", count: int = 1) -> bytes:
    """An Avro file with one block, whatever its bytes are."""
    meta = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    head = b"Obj\x01" + varint(len(meta))
    for key, value in meta.items():
        head += varint(len(key)) + key.encode() + varint(len(value)) + value
    sync = b"0123456789abcdef"
    return head + b"\x00" + sync + varint(count) + varint(len(body)) + body + sync


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(types)]}


def laughs(depth: int) -> dict[str, Any]:
    """A type that holds the one before twice, and so on."""
    fields: list[Any] = [record("null", name="L0")]
    fields += [record(f"L{n - 1}", f"L{n - 1}", name=f"L{n}") for n in range(1, depth)]
    return record(*fields, name="Top")


NULLS = {"type": "array", "items": "null"}
EMPTY = {"type": "array", "items": record(name="Empty")}
NOTHING = {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}
ITSELF = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "R"}]}
LISTS = {"type": "record", "name": "R", "fields": [{"name": "f", "type": ["null", "R"]}]}
DEEP: Any = "null"
for _ in range(200):
    DEEP = {"type": "array", "items": [DEEP, "int"]} if isinstance(DEEP, str) else {"type": "map", "values": DEEP}
CRAFTED = {
    **{f"{name} {count}": container(record(of), varint(count) + b"\x02\x00") for name, of in (("nulls", NULLS), ("empty", EMPTY), ("fixed", NOTHING)) for count in HUGE},
    **{f"ints {count}": container(record({"type": "array", "items": "int"}), varint(count) + b"\x02\x00") for count in HUGE},
    **{f"map {count}": container(record({"type": "map", "values": "null"}), varint(count) + b"\x02\x00") for count in HUGE},
    **{f"text {count}": container(record("string"), varint(count)) for count in HUGE},
    **{f"records {count}": container(record("null"), b"", count=count) for count in HUGE},
    "laughs": container(laughs(50), b""),
    "itself": container(ITSELF, b""),
    "a list of itself": container(LISTS, b"\x02" * 2_000_000),
    "deep": container(record(DEEP), b"\x02" * 1000),
    "bzip2": container(record("int"), b"BZh9", codec="bzip2"),
    "two of a name": container(
        record({**record("null", name="X"), "namespace": "a"}, {**record("int", name="X"), "namespace": "b"}, {"type": "array", "items": "a.X"}),
        b"\x00" + varint(1 << 40),
    ),
    "a nested null": container(record({"type": "array", "items": record(record("null", name="In"), name="Out")}), varint(1 << 40)),
    "nothing": b"",
    "magic": b"Obj\x01",
    "header": b"Obj\x01" + varint(1 << 40),
    "a bomb": container(record(NULLS), zlib.compress(varint(1 << 40) * 100)[2:-4], codec="deflate"),
}  # fmt: skip


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_avro_is_an_error_at_once(name: str):
    data = CRAFTED[name]
    with bounded():
        if name.startswith("records") and "-" not in name:
            assert avro_record(data, name) == {"f0": None}  # the first of them is all that is asked for
            return
        with pytest.raises(TableCorruptError, match=re.escape(name)):
            avro_record(data, name)


def log_block(schema: str, body: bytes, size: int | None = None) -> bytes:
    header = struct.pack(">iii", 1, 2, len(schema)) + schema.encode()
    rest = struct.pack(">ii", 1, 3) + header + struct.pack(">q", len(body)) + body + struct.pack(">i", 0)
    return (
        b"#HUDI#"
        + struct.pack(">q", len(rest) + 8 if size is None else size)
        + rest
        + struct.pack(">q", len(rest) + 14)
    )


PLAIN = json.dumps(record("int"))
LOGS = {
    **{f"count {n}": log_block(PLAIN, struct.pack(">ii", 3, n)) for n in (2**31 - 1, -1, -(2**31))},
    **{f"length {n}": log_block(PLAIN, struct.pack(">iii", 3, 2**31 - 1, n) + b"\x02" * 9) for n in (0, -4, -8, -(2**31), 2**31 - 1)},
    **{f"size {n}": log_block(PLAIN, struct.pack(">ii", 3, 0), n) for n in (0, -1, -(2**40), 2**40, -8)},
    **{f"header {n}": b"#HUDI#" + struct.pack(">qiii", 40, 1, 3, n) + struct.pack(">ii", 2, -8) * 4 for n in (2**31 - 1, -1)},
    "nulls": log_block(json.dumps(record(NULLS)), struct.pack(">iii", 3, 1, 8) + varint(1 << 40)[:8]),
    "laughs": log_block(json.dumps(laughs(50)), struct.pack(">iii", 3, 1, 0)),
    "itself": log_block(json.dumps(ITSELF), struct.pack(">iii", 3, 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_crafted_logs_are_an_error_at_once(name: str):
    with bounded(), pytest.raises(TableCorruptError):
        list(read_avro_records(LOGS[name], "log"))


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut out or put in: numbers above all."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out))
        match rng.randrange(4):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at : at + rng.randrange(9)] = b""
            case 2:
                out[at:at] = varint(rng.choice(HUGE))
            case _:
                out[at : at + 8] = struct.pack(">q", rng.choice(HUGE))
        if not out:
            out = bytearray(b"\x00")
    return bytes(out)


def avro_files() -> dict[str, tuple[bytes, Callable[[bytes], object]]]:
    files = {f"p{n}": (f"file:/t/p{n}/f.parquet",) for n in range(3)}
    block = format_avro_block(PLAIN, [{"f0": n} for n in range(20)])
    return {
        "rollback": (format_rollback_plan(RollbackPlan("1", "commit", files)), lambda d: parse_rollback_plan(d, "x")),
        "clean": (format_clean_plan(CleanPlan("P", files)), lambda d: parse_clean_plan(d, "x")),
        "log": (block + block, lambda d: list(read_avro_records(d, "x"))),
    }


@pytest.mark.parametrize("name", avro_files())
def test_flipped_files_are_read_or_refused_within_bounds(name: str):
    data, read = avro_files()[name]
    assert read(data)
    rng = random.Random(20261123)
    refused = 0
    with bounded(60):
        for _ in range(FLIPS):
            try:
                read(flipped(data, rng))
            except LakeIndexError:
                refused += 1
    assert refused > FLIPS // 4


def test_flipped_filters_are_read_or_problems(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(Row(f"k{n}", "d", 1, "v") for n in range(200)))
    file = next((tmp_path / "t" / "d").rglob("*.parquet"))
    metadata = pq.read_metadata(file)
    kind, text = "DYNAMIC_V0", metadata.metadata[marks.FILTER.encode()].decode()
    assert not isinstance(parse_filter(text, kind), FilterProblem)
    rng = random.Random(1)
    keys = pa.array([f"k{n}" for n in range(50)])
    problems = 0
    with bounded(60):
        for _ in range(FLIPS):
            changed = list(text)
            for _ in range(rng.randrange(1, 5)):
                changed[rng.randrange(min(len(changed), 80))] = rng.choice("ABCxyz/+09=\x00")
            found = parse_filter("".join(changed), kind)
            if isinstance(found, FilterProblem):
                problems += 1
            else:
                found.probe(keys)
    assert problems > FLIPS // 4
    raw = file.read_bytes()
    (length,) = struct.unpack("<I", raw[-8:-4])
    footer = raw[-8 - length : -8]
    assert footer_text(footer, metadata.num_columns, metadata.num_row_groups) is not None
    with bounded(60):
        for _ in range(FLIPS):
            footer_text(flipped(footer, rng), metadata.num_columns, metadata.num_row_groups)
    assert rows_of(table)


def test_what_hudi_and_we_write_is_within_the_bounds():
    from lakeindex.timeline import avro_schemas

    schemas = [
        value for name, value in vars(avro_schemas).items() if isinstance(value, dict) and value.get("type") == "record"
    ]
    assert len(schemas) >= 5
    for schema in schemas:
        check_bounded(schema)
    named = record(
        {"type": "enum", "name": "E", "symbols": ["a"]},
        "E",
        ["null", {"type": "array", "items": record("int", name="I")}],
        "I",
    )
    check_bounded({**named, "namespace": "org"})
    check_bounded(fastavro.parse_schema({**named, "namespace": "org"}))
    out = io.BytesIO()
    fastavro.writer(out, record("int"), [{"f0": 1}], codec="deflate")
    assert avro_record(out.getvalue(), "x") == {"f0": 1}
