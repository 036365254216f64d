"""All engines compress alike, and results say how."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake

import lakeindex
from benchmarks import report
from benchmarks.compression import CODEC, LEVEL, PAGE_ROWS, PARQUET_MR, ROW_GROUP_ROWS, SAID
from benchmarks.peers import PEERS
from benchmarks.peers import delta as delta_rs
from benchmarks.peers.floor import _write
from benchmarks.peers.iceberg_spark import _PROPERTIES
from benchmarks.peers.spark35 import COMMON
from benchmarks.report import PeerResult, WorkloadResult
from lakeindex.options.types import WriteConfig
from lakeindex.write.base_file import parquet_writer

PEER_FILES = sorted((Path(report.README.parent) / "peers").glob("*.py"))


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    numbers = np.random.default_rng(1).integers(0, 2000, 50_000)
    return pa.table({"note": pa.array([f"note {n} of {n % 7} in {n // 3}" for n in numbers])})


def column_bytes(path: Path) -> int:
    return sum(
        pq.read_metadata(path).row_group(g).column(0).total_compressed_size
        for g in range(pq.read_metadata(path).num_row_groups)
    )


def test_lakeindex_and_the_floor_compress_at_the_level_of_all(rows: pa.Table, tmp_path: Path) -> None:
    with parquet_writer(str(tmp_path / "ours"), rows.schema, WriteConfig(), []) as writer:
        writer.write_table(rows)
    sizes = {}
    for level in (LEVEL, 3):
        pq.write_table(
            rows,
            tmp_path / f"{level}",
            compression=CODEC,
            compression_level=level,
            use_dictionary=[],
            row_group_size=1 << 20,
        )
        sizes[level] = column_bytes(tmp_path / f"{level}")
    _write(rows, tmp_path / "floor")
    assert sizes[LEVEL] != sizes[3]
    assert column_bytes(tmp_path / "floor") == sizes[LEVEL]
    assert abs(column_bytes(tmp_path / "ours") - sizes[LEVEL]) < abs(sizes[3] - sizes[LEVEL]) / 10


def test_delta_rs_compresses_at_the_level_of_all(rows: pa.Table, tmp_path: Path) -> None:
    sizes = {}
    bounds = {"max_row_group_size": ROW_GROUP_ROWS, "data_page_row_count_limit": PAGE_ROWS}
    for name, properties in {
        "peer": delta_rs.EQUAL,
        "same": WriterProperties(compression="ZSTD", compression_level=LEVEL, **bounds),
        "three": WriterProperties(compression="ZSTD", compression_level=3, **bounds),
    }.items():
        write_deltalake(tmp_path / name, rows, writer_properties=properties)
        sizes[name] = sum(path.stat().st_size for path in (tmp_path / name).glob("*.parquet"))
    assert sizes["peer"] == sizes["same"] != sizes["three"]


def test_engines_on_spark_are_told_the_level() -> None:
    assert {"spark.hadoop.parquet.compression.codec.zstd.level": str(LEVEL)} == PARQUET_MR
    assert COMMON.items() >= PARQUET_MR.items()
    assert COMMON["spark.sql.parquet.compression.codec"] == CODEC
    assert f"'write.parquet.compression-level'='{LEVEL}'" in _PROPERTIES


@pytest.mark.parametrize("path", PEER_FILES, ids=lambda path: path.stem)
def test_no_peer_has_a_codec_or_level_of_its_own(path: Path) -> None:
    text = re.sub(r'""".*?"""|#.*', "", path.read_text(), flags=re.DOTALL)
    assert not re.search(r"""["'](zstd|snappy|gzip|lz4)["']|level["']?\s*[=:]\s*["']?\d""", text, re.IGNORECASE)


def test_results_say_how_each_peer_compressed() -> None:
    assert SAID == "zstd level 1"
    for name, entry in PEERS.items():
        assert entry.compression is not None
        assert entry.compression.startswith("its default" if name.endswith("-own") else SAID), name
    one = PeerResult("w", "floor", "floor", None, [1.0], [1.0], [0.0], correct=True, compression=SAID)
    result = WorkloadResult("w", 1, 1, 1, "machine", "today", "abc", [one, replace(one, peer="b", title="b")])
    assert "All wrote zstd level 1." in report.table(result)
    older = replace(result, peers=[one, replace(one, title="b", compression=None)])
    assert "Compression: zstd level 1: floor; not recorded: b." in report.table(older)
    assert "ompress" not in report.table(replace(result, peers=[replace(one, compression=None)])).split("|")[0]


def test_delta_rs_has_the_row_groups_and_pages_of_lakeindex(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(60_000)), "day": ["d"] * 60_000})
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    lakeindex.create_table(str(ours), rows.schema, key="id").upsert(rows)
    write_deltalake(theirs, rows, writer_properties=delta_rs.EQUAL)
    (our_file,), (their_file,) = (list(folder.glob("*.parquet")) for folder in (ours, theirs))
    for file in (our_file, their_file):
        metadata = pq.read_metadata(file)
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        assert groups == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 60_000 - 2 * ROW_GROUP_ROWS], file
