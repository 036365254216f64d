"""One bit of a base file is wrong: nobody gets wrong rows for it, and ``check --deep`` says so.

Every path on which base files are made: a first load, a rewrite that copies and patches row groups, a rescaling, another schema's file.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import LakeIndexError
from lakeindex.operations.check_violations import Broken
from lakeindex.operations.rescale import rescale_table
from lakeindex.parquet.stamps import FOOTER
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import make_table
from tests.scheduling import some_of
from tests.vectors_support import unpack_table

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("ts", pa.int64()),
        ("v", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("l", pa.list_(pa.int32())),
    ]
)
OPTIONS = {"lakeindex.parquet.row.group.rows": "100"}
FLIPS = 20
"""Of each region; ``make test-slow`` flips as many others."""
SEEDS = [17, pytest.param(18, marks=pytest.mark.slow), pytest.param(19, marks=pytest.mark.slow)]


def batch(first: int, last: int, ts: int) -> pa.Table:
    numbers = range(first, last)
    columns = [
        [f"k{n:05d}" for n in numbers],
        [ts] * len(numbers),
        [f"v{n * 7 % 50}" for n in numbers],
        [n * n for n in numbers],
        [n / 3 for n in numbers],
        [[n, n + 1] if n % 4 else [] for n in numbers],
    ]
    return pa.table(columns, schema=SCHEMA)


def loaded(folder: Path, **options: str) -> LakeTable:
    table = make_table(folder, partitions=(), schema=SCHEMA, **options)
    table.upsert(batch(0, 400, 1), options=OPTIONS, batch_id="one")
    return table


def rewritten(folder: Path) -> LakeTable:
    table = loaded(folder)
    table.upsert(batch(150, 170, 2), options=OPTIONS, batch_id="two")
    return table


def rescaled(folder: Path) -> LakeTable:
    table = loaded(folder, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    rescale_table(table.uri, LocalRunner(), buckets=1)
    return table


MADE: dict[str, Callable[[Path], LakeTable]] = {"load": loaded, "rewrite": rewritten, "rescale": rescaled}


def newest(table: LakeTable) -> Path:
    return max(Path(table.uri).glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def bits_of(data: bytes, seed: int) -> list[int]:
    """Bits all over the file, and some of each region: magic, first page headers, footer, its end."""
    draw = random.Random(seed)
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    metadata = pq.read_metadata(pa.BufferReader(data))
    starts = []
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            starts.append(chunk.dictionary_page_offset or chunk.data_page_offset)
    bits = draw.sample(range(8 * len(data)), FLIPS)
    bits += [8 * start + draw.randrange(8 * 24) for start in draw.choices(starts, k=FLIPS)]
    bits += draw.sample(range(8 * footer, 8 * len(data)), FLIPS)
    return [*bits, *draw.sample(range(32), 2), *draw.sample(range(8 * len(data) - 64, 8 * len(data)), 8)]


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def outcome(action: Callable[[], list[dict[str, object]]]) -> list[dict[str, object]] | LakeIndexError:
    try:
        return action()
    except LakeIndexError as error:
        return error


def rows_of(table: LakeTable) -> list[dict[str, object]]:
    found = table.read(meta=True).drop_columns(["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"])
    return found.sort_by("id").to_pylist()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("made", some_of(MADE, {"rewrite"}.__contains__, pytest.mark.slow))
def test_no_flip_gives_wrong_rows_and_a_deep_check_tells_it(tmp_path: Path, made: str, seed: int) -> None:
    table = MADE[made](tmp_path / "table")
    path = newest(table)
    whole = path.read_bytes()
    right = rows_of(table)
    clean = table.check(deep=True)
    assert clean.ok
    assert clean.checked.pages > 0 == clean.checked.pages_without_crc
    silent = []
    for bit in bits_of(whole, seed):
        flip(path, bit)
        got = outcome(lambda: rows_of(table))
        if isinstance(got, LakeIndexError):
            assert path.name in got.message
            assert got.hint
        else:
            assert got == right, f"bit {bit} was read as other rows"
            silent.append(bit)
        found = table.check(deep=True)
        assert any(one.culprit == path.name for one in found.violations), f"bit {bit} was not told"
        path.write_bytes(whole)
    assert all(bit < 8 * 4 or is_in_header(whole, bit) for bit in silent)


def is_in_header(data: bytes, bit: int) -> bool:
    """Flips that reading does not notice stand in page headers (statistics, an unused size), and change no row."""
    at = bit // 8
    metadata = pq.read_metadata(pa.BufferReader(data))
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            if start <= at < start + chunk.total_compressed_size:
                return True
    return False


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("made", [pytest.param("load", marks=pytest.mark.slow), "rewrite"])
def test_no_flip_is_copied_into_a_new_file(tmp_path: Path, made: str, seed: int) -> None:
    MADE[made](tmp_path / "whole")
    whole = tmp_path / "whole"
    update, refused, silent = batch(390, 410, 5), 0, []
    work = tmp_path / "work"
    shutil.copytree(whole, work)
    LakeTable(str(work)).upsert(update, options=OPTIONS, batch_id="next")
    right = rows_of(LakeTable(str(work)))
    path = newest(LakeTable(str(whole)))
    data = path.read_bytes()
    for bit in bits_of(data, seed)[::2]:
        shutil.rmtree(work)
        shutil.copytree(whole, work)
        flip(work / path.name, bit)
        table = LakeTable(str(work))
        run = str(tmp_path / f"run-{made}-{bit}")

        def upserted(table: LakeTable = table, run: str = run) -> list[dict[str, object]]:
            table.upsert(update, options=OPTIONS, batch_id="next", checkpoints=run)
            return rows_of(table)

        got = outcome(upserted)
        if isinstance(got, LakeIndexError):
            assert path.name in f"{got.message} {got.culprit}"
            refused += 1
        else:
            assert got == right, f"bit {bit} was written as other rows"
            silent.append(bit)
    assert refused > 5 * len(silent)
    assert all(bit < 8 * 4 or is_in_header(data, bit) for bit in silent)


def test_a_file_without_checksums_is_read_and_counted(tmp_path: Path) -> None:
    """Hudi's own files have page checksums; those of the older writer of the vectors have none, and nothing is wrong with them."""
    table = LakeTable(str(unpack_table("py_simple", tmp_path)))
    report = table.check(deep=True)
    assert report.ok
    assert report.checked.pages == report.checked.pages_without_crc > 0
    assert any("pages_without_crc" in note for note in report.notes)
    (tmp_path / "hudi").mkdir()
    hudi = LakeTable(str(unpack_table("h0150_v6_rolledback", tmp_path / "hudi"))).check(deep=True)
    assert hudi.checked.pages > 0 == hudi.checked.pages_without_crc


def test_the_footer_digest_of_the_commit(tmp_path: Path) -> None:
    """A file whose footer agrees with itself and is not the one that was committed: the plain check says so."""
    table = loaded(tmp_path / "table")
    path = newest(table)
    data = path.read_bytes()
    assert FOOTER.encode() in data
    other = loaded(tmp_path / "other")
    path.write_bytes(newest(other).read_bytes().ljust(0))
    found = table.check()
    kinds = {one.kind for one in found.violations if one.culprit == path.name}
    assert Broken.FOOTER in kinds
    path.write_bytes(data)
    table.upsert(batch(150, 170, 2), options=OPTIONS, batch_id="two")
    assert table.check(deep=True).ok
    path.write_bytes(newest(other).read_bytes())
    assert table.check().ok, "nobody reads it now"
    found = table.check(deep=True)
    assert {one.kind for one in found.violations if one.culprit == path.name} == {Broken.FOOTER}
