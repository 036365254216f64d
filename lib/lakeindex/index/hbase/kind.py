"""HBASE: locations in an HBase table, laid out as Hudi 0.15 does it, so that both can share one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from lakeindex.index.hbase.client import HBaseAddress, HBaseClient, shared_rate
from lakeindex.index.hbase.options import TABLE_OPTION, HBaseOptions
from lakeindex.index.hbase.rows import HBaseRows
from lakeindex.index.hbase.store import HBaseStore
from lakeindex.index.stored.contract import StoredIndex
from lakeindex.index.stored.store_context import StoreContext
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig

_FIRST_ANSWER_SECONDS: Final = 5.0
_answered: Final[set[HBaseAddress]] = set()
"""Servers that this process has had an answer from. One that never answered is given up soon:
its address may be wrong.
"""


@dataclass(frozen=True, slots=True)
class HBaseIndex(StoredIndex):
    """The kind."""

    spec: IndexSpec

    def open(self, context: StoreContext) -> HBaseStore:
        """The store of a table; the driver sees first whether HBase answers and the table is fit,
        before anything is written.

        Raises:
            HBaseUnavailableError: HBase does not answer.
            HBaseTableError: its table is missing or unfit.
        """
        config = context.config
        rows = rows_of(config, self.spec.option(TABLE_OPTION) or context.table_name)
        if context.runner is not None:
            known = rows.client.address in _answered
            create = config.of(HBaseOptions).create_table
            rows.check(create=create, retry_seconds=None if known else _FIRST_ANSWER_SECONDS)
            _answered.add(rows.client.address)
        return HBaseStore(context, rows)

    def moves_rows(self, config: WriteConfig) -> bool:
        """As ``hoodie.hbase.index.update.partition.path`` says."""
        return config.of(HBaseOptions).moves_rows


def rows_of(config: WriteConfig, table: str) -> HBaseRows:
    """The rows of an HBase table, by the options of a write.

    The bound of rows a second is Hudi's, for one region server: ``qps.fraction x max.qps.per.region.server``.
    """
    given = config.of(HBaseOptions)
    address = HBaseAddress(
        given.host,
        given.port,
        connect_seconds=given.connect_seconds,
        retry_seconds=given.retry_seconds,
    )
    bound = math.ceil(given.qps_fraction * given.max_qps)
    return HBaseRows(
        HBaseClient(address, table),
        given.get_batch,
        given.put_batch,
        shared_rate(f"{address}/{table}", bound),
    )


def make_index(spec: IndexSpec) -> HBaseIndex:
    """The kind."""
    return HBaseIndex(spec)
