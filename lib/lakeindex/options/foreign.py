"""Options of Hudi that are not ours: those that change nothing here, and those that are refused.
Standard library only.
"""

from __future__ import annotations

from typing import Final

_TASKS_BY_COST: Final = (
    "work is divided into tasks by its estimated cost; lakeindex.parallelism limits the tasks that run at once"
)
_THROUGH_THRIFT: Final = (
    "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is"
)
_CONSISTENT_HASHING: Final = "it belongs to consistent hashing, which Hudi refuses on copy-on-write tables"
_THRIFT_LOGS_IN: Final = "HBase's Thrift server does the log-in to a secured HBase; set it up there"

NOTED_OPTIONS: Final[dict[str, str]] = {
    "hoodie.index.bucket.engine": "only SIMPLE is supported: Hudi refuses consistent hashing on copy-on-write tables",
    "hoodie.bucket.index.partition.rule.type": "rules are regular expressions",
    "hoodie.bloom.index.parallelism": _TASKS_BY_COST,
    "hoodie.simple.index.parallelism": _TASKS_BY_COST,
    "hoodie.global.simple.index.parallelism": _TASKS_BY_COST,
    "hoodie.global.index.reconcile.parallelism": _TASKS_BY_COST,
    "hoodie.bloom.index.use.caching": "checkpoints replace caching",
    "hoodie.simple.index.use.caching": "checkpoints replace caching",
    "hoodie.record.index.use.caching": "checkpoints replace caching",
    "hoodie.bloom.index.input.storage.level": "checkpoints replace caching",
    "hoodie.simple.index.input.storage.level": "checkpoints replace caching",
    "hoodie.record.index.input.storage.level": "checkpoints replace caching",
    "hoodie.bloom.index.bucketized.checking": "the probes of a file with many candidate keys are always split",
    "hoodie.bloom.index.keys.per.bucket": "the probes of a file with many candidate keys are always split",
    "hoodie.bloom.index.bucketized.checking.enable.dynamic.parallelism": (
        "work is always divided into tasks by its estimated cost"
    ),
    "hoodie.bloom.index.fileid.key.sorting.enable": "keys are always sorted",
    "hoodie.bucket.index.query.pruning": "`lakeindex get` always uses the index",
    "hoodie.bucket.index.remote.partitioner.enable": "buckets are assigned to tasks by cost",
    "hoodie.metadata.record.level.index.min.filegroup.count": "one set of shards serves all partitions: see "
    "hoodie.metadata.record.index.min.filegroup.count",
    "hoodie.metadata.record.level.index.max.filegroup.count": "one set of shards serves all partitions: see "
    "hoodie.metadata.record.index.max.filegroup.count",
    "index.bootstrap.enabled": "`lakeindex index build` builds a state from the table",
    "hoodie.index.hbase.zkquorum": _THROUGH_THRIFT,
    "hoodie.index.hbase.zkport": _THROUGH_THRIFT,
    "hoodie.index.hbase.zknode.path": _THROUGH_THRIFT,
    "hoodie.index.hbase.zk.session_timeout_ms": _THROUGH_THRIFT,
    "hoodie.index.hbase.zk.connection_timeout_ms": _THROUGH_THRIFT,
    "hoodie.index.hbase.qps.allocator.class": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.zkpath.qps_root": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.dynamic_qps": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.min.qps.fraction": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.max.qps.fraction": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.desired_puts_time_in_secs": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.sleep.ms.for.put.batch": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.sleep.ms.for.get.batch": "the rate limit is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.put.batch.size.autocompute": "the batch size is hoodie.index.hbase.put.batch.size",
    "hoodie.combine.before.upsert": "duplicates of a batch are always combined",
    "hoodie.combine.before.delete": "duplicates of a batch are always combined",
}
"""Options of Hudi that change nothing here, and why; the summary's notes name those that are given."""

REFUSED_OPTIONS: Final[dict[str, str]] = {
    "hoodie.index.class": "docs/adding-an-index.md describes how to add an index type",
    "hoodie.bucket.index.max.num.buckets": _CONSISTENT_HASHING,
    "hoodie.bucket.index.min.num.buckets": _CONSISTENT_HASHING,
    "hoodie.bucket.index.split.threshold": _CONSISTENT_HASHING,
    "hoodie.bucket.index.merge.threshold": _CONSISTENT_HASHING,
    "index.partition.regex": (
        "an index must cover every partition, otherwise keys of the other partitions would be stored twice"
    ),
    "hoodie.index.hbase.security.authentication": _THRIFT_LOGS_IN,
    "hoodie.index.hbase.kerberos.user.keytab": _THRIFT_LOGS_IN,
    "hoodie.index.hbase.kerberos.user.principal": _THRIFT_LOGS_IN,
    "hoodie.index.hbase.regionserver.kerberos.principal": _THRIFT_LOGS_IN,
    "hoodie.index.hbase.master.kerberos.principal": _THRIFT_LOGS_IN,
    "hoodie.index.hbase.bucket.number": (
        "it belongs to RebalancedSparkHoodieHBaseIndex, which uses other row keys; "
        "lakeindex uses the row layout of SparkHoodieHBaseIndex"
    ),
    "hoodie.metadata.enable": (
        "a metadata table that is there is kept up (lakeindex.metadata.table); `lakeindex metadata build` makes one"
    ),
    "hoodie.metadata.index.bloom.filter.enable": (
        "filters are not written to the metadata table; lakeindex.footer.cache keeps filters"
    ),
    "hoodie.metadata.index.column.stats.enable": (
        "statistics of a metadata table that has them are kept up; Hudi builds them"
    ),
    "hoodie.metadata.record.index.enable": "use hoodie.index.type=RECORD_INDEX and run `lakeindex index build`",
    "hoodie.metadata.global.record.level.index.enable": (
        "use hoodie.index.type=RECORD_INDEX and run `lakeindex index build`"
    ),
    "hoodie.metadata.record.level.index.enable": (
        "use hoodie.index.type=RECORD_LEVEL_INDEX and run `lakeindex index build`"
    ),
    "hoodie.merge.allow.duplicate.on.inserts": "an upsert never stores a key twice",
    "hoodie.populate.meta.fields": "rows without meta columns cannot be found by key",
}
"""Options of Hudi that ask for something lakeindex does not do, and what to do instead."""

NOTED_VALUES: Final[dict[str, str]] = {
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.partition.rule.type": "REGEX",
    "hoodie.combine.before.upsert": "TRUE",
    "hoodie.combine.before.delete": "TRUE",
}
"""Noted options that accept only one value."""
