"""Our record index and bloom filters of the files of Hudi's tables are those in its own metadata table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.metadata.content_records import NewFile, filter_record
from lakeindex.metadata.indexed_columns import is_partitioned_index, read_definitions, with_definition
from lakeindex.metadata.metadata_changes import is_partitioned
from lakeindex.metadata.metadata_keys import bloom_filter_key
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, RECORD_INDEX
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.record_index import FIELD, RecordLocation, location_of, location_record
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from lakeindex.timeline.clock import instant_ms
from tests.unit.metadata.located import located
from tests.vectors_support import unpack

VECTORS = Path(__file__).parents[2] / "vectors" / "indexes"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in VECTORS.glob("*.tar.xz"))


def opened(name: str, folder: Path) -> tuple[Path, Table, MetadataView]:
    unpack(VECTORS / f"{name}.tar.xz", folder)
    table = Table.open(open_storage(str(folder / name)))
    metadata = metadata_table_of(table.storage, table.properties)
    assert metadata is not None
    return folder / name, table, MetadataView.load(metadata, table.load_timeline())


@pytest.mark.parametrize("name", NAMES)
def test_records_are_hudis(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field by field. The time is that of the insert, which an update does not change: of rows that were updated it is
    earlier than their commit's.
    """
    monkeypatch.setenv("TZ", "America/New_York" if name.endswith("_zone") else "UTC")
    time.tzset()
    root, table, view = opened(name, tmp_path)
    slices = view.slices(RECORD_INDEX)
    assert is_partitioned(slices) == ("partitioned" in name) == is_partitioned_index(read_definitions(table.storage))
    records = {key: record for one in slices for key, record in view.records(one).items()}
    keys: dict[str, dict[str, RecordLocation]] = {}
    updated = 0
    for file in table.snapshot().base_files_all():
        read = pq.ParquetFile(root / file.path).read(["_hoodie_record_key", "_hoodie_commit_time"])
        for key, at in zip(read.column(0).to_pylist(), read.column(1).to_pylist(), strict=True):
            ours = RecordLocation(file.partition_path, file.file_id, instant_ms(table.properties.timezone, at))
            theirs = location_of(records[key], name)
            if 50 <= int(key[1:4]) < 66:
                assert theirs.since_ms < ours.since_ms
                ours, updated = theirs, updated + 1
            found = location_record(ours)[FIELD]
            assert {field: found[field] for field in records[key][FIELD]} == records[key][FIELD]
            keys.setdefault(file.partition_path, {})[key] = ours
    assert (updated, len(records)) == (16, 65)
    for partition, wanted in keys.items():
        assert located(view, [*wanted, "none"], partition if is_partitioned(slices) else None) == wanted
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", NAMES)
def test_filters_are_hudis(name: str, tmp_path: Path) -> None:
    """0.15 leaves those of files that it has cleaned."""
    root, table, view = opened(name, tmp_path)
    theirs: dict[str, Any] = {key: it for one in view.slices(BLOOM_FILTERS) for key, it in view.records(one).items()}
    ours = 0
    snapshot = table.snapshot()
    for partition in snapshot.partitions():
        listed = snapshot.files_of(partition)
        for file in (*listed.live, *listed.older):
            new = NewFile(partition, file.name, pq.read_metadata(root / file.path))
            record = filter_record(new, file.instant_time)
            assert record is not None
            assert (
                theirs[bloom_filter_key(partition, file.name)]["BloomFilterMetadata"] == record["BloomFilterMetadata"]
            )
            ours += 1
    assert ours == len(theirs) or (name == "h0150_v6" and ours == len(theirs) // 2)


def test_a_filter_under_its_older_name_is_one() -> None:
    """As Hudi's readers take it; the newer name counts where both are there."""
    for entries, text in (
        ({"com.uber.hoodie.bloomfilter": "older"}, b"older"),
        ({"com.uber.hoodie.bloomfilter": "older", "org.apache.hudi.bloomfilter": "newer"}, b"newer"),
    ):
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": ["a"]}).replace_schema_metadata(entries), out)
        file = NewFile("p", "f.parquet", pq.read_metadata(pa.BufferReader(out.getvalue())))
        record = filter_record(file, "20260101000000000")
        assert record is not None
        assert (record["BloomFilterMetadata"]["bloomFilter"], record["BloomFilterMetadata"]["type"]) == (text, "SIMPLE")


@pytest.mark.parametrize("name", [name for name in NAMES if "_v6" not in name])
def test_the_definition_is_hudis(name: str, tmp_path: Path) -> None:
    _, table, _ = opened(name, tmp_path)
    ours = with_definition(None, RECORD_INDEX, (), table.properties.version, partitioned="partitioned" in name)
    assert ours == read_definitions(table.storage)
