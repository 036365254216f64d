"""Log files of the archived timeline: Hudi's are read, and ours are the same bytes."""

import json
from pathlib import Path

import pytest

from lakeindex.commit.services.archive import SCHEMA
from lakeindex.errors import TableCorruptError
from lakeindex.format.log_blocks import MAGIC
from lakeindex.timeline.archived_timeline import format_avro_block, read_avro_records
from tests.vectors_support import unpack_table

TABLE = "h0150_v6_clean"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    root = unpack_table(TABLE, tmp_path_factory.mktemp("logs"))
    return [path.read_bytes() for path in sorted(Path(root).glob(".hoodie/archived/.commits_*"))]


def test_hudis_archive_is_read(logs: list[bytes]) -> None:
    first = list(read_avro_records(logs[0], "log"))
    assert [(one["commitTime"], one["actionState"]) for one in first[:3]] == [
        ("20261121014846076", "REQUESTED"),
        ("20261121014846076", "INFLIGHT"),
        ("20261121014846076", "COMPLETED"),
    ]
    assert first[2]["hoodieCommitMetadata"]["partitionToWriteStats"]["eu"][0]["numInserts"] == 20
    assert {one["actionType"] for one in read_avro_records(logs[1], "log")} == {"clean"}


def test_our_blocks_are_hudis_bytes(logs: list[bytes]) -> None:
    """Hudi's records, written by us: the same length, header and trailer; maps of several entries have no order."""
    for data in logs:
        records = list(read_avro_records(data, "log"))
        written = format_avro_block(SCHEMA, records)
        assert list(read_avro_records(written, "ours")) == records
        assert len(written) == len(data)
        head = data.index(b'"fields"')
        assert written[:head] == data[:head]
        assert written[-12:] == data[-12:]


def test_our_schema_is_hudis(logs: list[bytes]) -> None:
    start = logs[0].index(b'{"type":"record"')
    assert json.loads(SCHEMA) == json.loads(logs[0][start : start + len(SCHEMA)])


def test_several_blocks_and_foreign_ones(logs: list[bytes]) -> None:
    count = len(list(read_avro_records(logs[0], "log")))
    command = MAGIC + (36).to_bytes(8, "big") + b"".join(n.to_bytes(4, "big") for n in (1, 0, 0))
    command += (0).to_bytes(8, "big") + bytes(4) + bytes(4) + (50).to_bytes(8, "big")
    both = logs[0] + command + logs[0]
    assert len(list(read_avro_records(both, "log"))) == 2 * count


@pytest.mark.parametrize("cut", [1, 10, 100, 16_000])
def test_a_torn_log_is_told(logs: list[bytes], cut: int) -> None:
    with pytest.raises(TableCorruptError, match="the log"):
        list(read_avro_records(logs[0][:-cut], "the log"))


def test_what_is_no_log_is_told() -> None:
    with pytest.raises(TableCorruptError, match="no block begins"):
        list(read_avro_records(b"PAR1 and so on", "x"))
