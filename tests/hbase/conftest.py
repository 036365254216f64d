"""The HBase that ``make test-hbase`` started, and one table of its own for each test."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.index.hbase.hbase_rows import HBaseRows, Row
from lakeindex.index.hbase.hbase_store import rows_of
from lakeindex.model import IndexSpec
from lakeindex.options.parse import parse_options
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from scripts.hbase_server import HBaseServer
from tests.builders import make_table


@dataclass
class Bench:
    """A lakeindex table with the index HBASE, and the HBase table behind it."""

    folder: Path
    server: HBaseServer
    name: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:12]}")

    def options(self, **more: str) -> dict[str, str]:
        """Options of a write; more by keyword with ``__`` for dots."""
        return {
            "lakeindex.hbase.thrift.host": self.server.host,
            "lakeindex.hbase.thrift.port": str(self.server.thrift_port),
            "lakeindex.hbase.create.table": "true",
            "lakeindex.lock.lease": "2",
            "hoodie.hbase.index.update.partition.path": "true",
            **{key.replace("__", "."): value for key, value in more.items()},
        }

    def table(self, name: str = "table") -> LakeTable:
        """An empty table."""
        return make_table(self.folder / name, hoodie__index__type="HBASE", hoodie__index__hbase__table=self.name)

    def spec(self, table: LakeTable) -> IndexSpec:
        """The index of a table."""
        spec = Table.open(open_storage(table.uri)).index(Table.open(open_storage(table.uri)).load_timeline())
        assert spec is not None
        return spec

    def rows(self, **more: str) -> HBaseRows:
        """The rows in HBase."""
        return rows_of(parse_options(self.options(**more)), self.name)

    def held(self) -> dict[str, Row]:
        """All of them, without time stamps."""
        return {key: replace(row, stamp=0) for key, row in self.rows().scan()}


@pytest.fixture(scope="session")
def server() -> Iterator[HBaseServer]:
    """The server, which ends with the session."""
    folder = os.environ.get("LAKEINDEX_HBASE_FOLDER")
    if folder is None:
        pytest.fail("no HBase: run `make test-hbase`, or scripts/hbase_server.py run -- pytest -m hbase tests/hbase")
    found = HBaseServer(Path(folder))
    yield found
    found.kill()


@pytest.fixture
def bench(tmp_path: Path, server: HBaseServer) -> Iterator[Bench]:
    """A bench of its own for the test; the server runs again afterwards."""
    yield Bench(tmp_path, server)
    server.start()
