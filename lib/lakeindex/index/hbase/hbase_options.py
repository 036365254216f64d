"""Options of HBASE."""

from __future__ import annotations

from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.options.option import FLAG, Option, OptionArea, flag, share, some_text, whole

TABLE_OPTION: Final = "hoodie.index.hbase.table"


class HBaseOptions(Frozen):
    """Where HBase is, and how it is asked."""

    table: str | None = None
    moves_rows: bool = False
    host: str = "127.0.0.1"
    port: int = 9090
    get_batch: int = 1_000
    put_batch: int = 1_000
    max_qps: int = 0
    qps_fraction: float = 0.5
    rollback_sync: bool = True
    verify_puts: bool = True
    create_table: bool = False
    connect_seconds: int = 10
    retry_seconds: int = 60


# A table of options, not code: the formatter would give each argument a line.
# fmt: off
AREA: Final = OptionArea(
    "HBASE",
    HBaseOptions,
    (
        Option(TABLE_OPTION, "table", some_text, "a table of HBase",
               "HBASE: table of HBase that stores the index. It must have the column family `_s`. Default: "
               "the name of the Hudi table. Bound.", True),
        Option("hoodie.hbase.index.update.partition.path", "moves_rows", flag, FLAG,
               "HBASE, if a stored key arrives with another partition: "
               "`true` moves the row to that partition, `false` updates the row in its present partition."),
        Option("lakeindex.hbase.thrift.host", "host", some_text, "a host",
               "HBASE: host of HBase's Thrift server."),
        Option("lakeindex.hbase.thrift.port", "port", whole(1, 65_535), "1 .. 65535",
               "HBASE: port of HBase's Thrift server."),
        Option("lakeindex.hbase.create.table", "create_table", flag, FLAG,
               "HBASE: create the HBase table if it does not exist. (Hudi never creates it.)"),
        Option("lakeindex.hbase.connect.timeout", "connect_seconds", whole(1, 3_600), "seconds, 1 .. 3600",
               "HBASE: longest wait for a connection, and the shortest limit of a wait for an answer."),
        Option("lakeindex.hbase.retry.timeout", "retry_seconds", whole(0, 86_400), "seconds, 0 .. 86400",
               "HBASE: how long a call that fails during a run is retried, each time over a new connection. A try "
               "waits as long for an answer, 60 seconds at most."),
        Option("lakeindex.hbase.verify.puts", "verify_puts", flag, FLAG,
               "HBASE: read back the rows that were put, and put missing ones again."),
        Option("hoodie.index.hbase.get.batch.size", "get_batch", whole(1, 100_000), "rows, 1 .. 100000",
               "HBASE: rows in one get request. (Hudi's default: 100.)"),
        Option("hoodie.index.hbase.put.batch.size", "put_batch", whole(1, 100_000), "rows, 1 .. 100000",
               "HBASE: rows in one put request. (Hudi's default: 100.)"),
        Option("hoodie.index.hbase.max.qps.per.region.server", "max_qps", whole(0, 100_000_000),
               "rows a second, 0 or more (0: no limit)",
               "HBASE: rate limit. One process reads or writes at most this number times "
               "`hoodie.index.hbase.qps.fraction` rows a second. (Hudi's default: 1000.)"),
        Option("hoodie.index.hbase.qps.fraction", "qps_fraction", share, "above 0, up to 1",
               "HBASE: share of `hoodie.index.hbase.max.qps.per.region.server` that this process may use."),
        Option("hoodie.index.hbase.rollback.sync", "rollback_sync", flag, FLAG,
               "HBASE: delete the rows that a failed commit put. "
               "(Hudi's default: false.) If they are not deleted, look-ups ignore them."),
    ),
)
# fmt: on
