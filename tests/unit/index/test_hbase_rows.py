"""What of the HBASE index needs no server: keys, options, the bound of rows a second, an address where nobody listens."""

from __future__ import annotations

import socket
import time

import pytest

from lakeindex.errors import HBaseUnavailableError, InputError, OptionError
from lakeindex.index.hbase.hbase_options import TABLE_OPTION
from lakeindex.index.hbase.hbase_rows import (
    MARKER_KEY,
    HBaseAddress,
    HBaseClient,
    HBaseRows,
    RowRate,
    create_statement,
    row_key,
    shared_rate,
)
from lakeindex.index.hbase.hbase_store import rows_of
from lakeindex.model import IndexType
from lakeindex.options.parse import index_spec, parse_create_options, parse_options


def test_a_key_is_its_utf8() -> None:
    assert row_key("é\U0001f600￿") == "é\U0001f600￿".encode()
    assert row_key("k" * 32_767)
    with pytest.raises(UnicodeDecodeError):
        MARKER_KEY.decode()
    assert "\U0010ffff".encode() * 10 < MARKER_KEY


@pytest.mark.parametrize("key", ["", "k" * 32_768, "é" * 16_384])
def test_a_key_that_hbase_cannot_have_is_refused(key: str) -> None:
    with pytest.raises(InputError, match=r"the row key of HBase has 1 \.\. 32767"):
        row_key(key)


def test_rows_are_paced_across_batches() -> None:
    rate = RowRate(1_000)
    begun = time.monotonic()
    for _ in range(4):
        rate.wait(100)
    assert time.monotonic() - begun > 0.28
    assert shared_rate("a", 5) is shared_rate("a", 5)
    assert shared_rate("a", 5) is not shared_rate("b", 5)
    assert shared_rate("a", 0) is None


def test_options_reach_the_rows() -> None:
    config = parse_options(
        {
            "lakeindex.hbase.thrift.host": "h",
            "lakeindex.hbase.thrift.port": "77",
            "lakeindex.hbase.connect.timeout": "3",
            "lakeindex.hbase.retry.timeout": "4",
            "hoodie.index.hbase.get.batch.size": "5",
            "hoodie.index.hbase.put.batch.size": "6",
            "hoodie.index.hbase.max.qps.per.region.server": "100",
            "hoodie.index.hbase.qps.fraction": "0.25",
        }
    )
    rows = rows_of(config, "ix")
    assert rows.client == HBaseClient(HBaseAddress("h", 77, 3, 4), "ix")
    assert (rows.get_batch, rows.put_batch) == (5, 6)
    assert rows.rate is shared_rate("h:77/ix", 25)
    assert rows_of(parse_options({}), "ix").rate is None


def test_the_table_is_bound_with_hbase_only() -> None:
    create = parse_create_options({"hoodie.index.type": "HBASE", TABLE_OPTION: "ns:ix"})
    assert index_spec(IndexType.HBASE, create).option(TABLE_OPTION) == "ns:ix"
    assert index_spec(IndexType.HBASE, parse_create_options({})).option(TABLE_OPTION) == ""
    with pytest.raises(OptionError, match="has no meaning with index type BLOOM"):
        index_spec(IndexType.BLOOM, create)


def test_options_of_hudi_that_thrift_has_no_use_for() -> None:
    config = parse_options({"hoodie.index.hbase.zkquorum": "zk", "hoodie.index.hbase.zkport": "2181"})
    assert all("lakeindex.hbase.thrift.host" in note for note in config.notes)
    assert len(config.notes) == 2
    with pytest.raises(OptionError, match=r"RebalancedSparkHoodieHBaseIndex"):
        parse_options({"hoodie.index.hbase.bucket.number": "8"})
    with pytest.raises(OptionError, match="Thrift server does the log-in"):
        parse_options({"hoodie.index.hbase.security.authentication": "kerberos"})


def test_nobody_listens() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    rows = HBaseRows(HBaseClient(HBaseAddress("127.0.0.1", port, retry_seconds=0.5), "ix"))
    begun = time.monotonic()
    with pytest.raises(
        HBaseUnavailableError, match=rf"HBase does not answer at 127\.0\.0\.1:{port} \(tried for 0\.5 s\)"
    ):
        rows.get(["k"])
    assert time.monotonic() - begun > 0.4


def test_somebody_listens_who_is_no_thrift_server() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        address = HBaseAddress("127.0.0.1", server.getsockname()[1], 0.2, 0.3)
        with pytest.raises(HBaseUnavailableError, match="timed out"):
            HBaseRows(HBaseClient(address, "ix")).check(create=False)


def test_the_statement_that_makes_a_table() -> None:
    assert create_statement("ns:ix") == "create 'ns:ix', {NAME=>'_s', VERSIONS=>3}"
