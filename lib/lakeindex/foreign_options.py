"""Options of Hudi that are not ours: those that change nothing here, and those that are refused. Standard library only."""

from __future__ import annotations

from typing import Final

NOTED_OPTIONS: Final[dict[str, str]] = {
    "hoodie.index.bucket.engine": "only SIMPLE is there: Hudi refuses consistent hashing on copy-on-write tables",
    "hoodie.bucket.index.partition.rule.type": "rules are regular expressions",
    "hoodie.bloom.index.parallelism": "tasks are packed by cost; lakeindex.parallelism bounds them",
    "hoodie.simple.index.parallelism": "tasks are packed by cost; lakeindex.parallelism bounds them",
    "hoodie.global.simple.index.parallelism": "tasks are packed by cost; lakeindex.parallelism bounds them",
    "hoodie.global.index.reconcile.parallelism": "tasks are packed by cost; lakeindex.parallelism bounds them",
    "hoodie.bloom.index.use.caching": "checkpoints take the place of caching",
    "hoodie.simple.index.use.caching": "checkpoints take the place of caching",
    "hoodie.record.index.use.caching": "checkpoints take the place of caching",
    "hoodie.bloom.index.input.storage.level": "checkpoints take the place of caching",
    "hoodie.simple.index.input.storage.level": "checkpoints take the place of caching",
    "hoodie.record.index.input.storage.level": "checkpoints take the place of caching",
    "hoodie.bloom.index.bucketized.checking": "probes of a file that most keys fall into are always split",
    "hoodie.bloom.index.keys.per.bucket": "probes of a file that most keys fall into are always split",
    "hoodie.bloom.index.bucketized.checking.enable.dynamic.parallelism": "tasks are always packed by cost",
    "hoodie.bloom.index.fileid.key.sorting.enable": "keys are always sorted",
    "hoodie.bucket.index.query.pruning": "`lakeindex get` always uses the index",
    "hoodie.bucket.index.remote.partitioner.enable": "buckets are packed into tasks by cost",
    "hoodie.metadata.record.level.index.min.filegroup.count": "one set of shards serves all partitions: see "
    "hoodie.metadata.record.index.min.filegroup.count",
    "hoodie.metadata.record.level.index.max.filegroup.count": "one set of shards serves all partitions: see "
    "hoodie.metadata.record.index.max.filegroup.count",
    "index.bootstrap.enabled": "`lakeindex index build` makes a state from the table",
    "hoodie.index.hbase.zkquorum": "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is",
    "hoodie.index.hbase.zkport": "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is",
    "hoodie.index.hbase.zknode.path": "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is",
    "hoodie.index.hbase.zk.session_timeout_ms": "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is",
    "hoodie.index.hbase.zk.connection_timeout_ms": "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is",
    "hoodie.index.hbase.qps.allocator.class": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.zkpath.qps_root": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.dynamic_qps": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.min.qps.fraction": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.max.qps.fraction": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.desired_puts_time_in_secs": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.sleep.ms.for.put.batch": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.sleep.ms.for.get.batch": "the bound of rows a second is fixed: max.qps.per.region.server x qps.fraction",
    "hoodie.index.hbase.put.batch.size.autocompute": "batches have the size that put.batch.size says",
    "hoodie.combine.before.upsert": "duplicates of a batch are always combined",
    "hoodie.combine.before.delete": "duplicates of a batch are always combined",
}
"""Options of Hudi that change nothing here, and why; who gives one is told."""

REFUSED_OPTIONS: Final[dict[str, str]] = {
    "hoodie.index.class": "an index type of your own is a line in lakeindex.model.IndexType: see docs/adding-an-index.md",
    "hoodie.bucket.index.max.num.buckets": "it belongs to consistent hashing, which Hudi refuses on copy-on-write tables",
    "hoodie.bucket.index.min.num.buckets": "it belongs to consistent hashing, which Hudi refuses on copy-on-write tables",
    "hoodie.bucket.index.split.threshold": "it belongs to consistent hashing, which Hudi refuses on copy-on-write tables",
    "hoodie.bucket.index.merge.threshold": "it belongs to consistent hashing, which Hudi refuses on copy-on-write tables",
    "index.partition.regex": "an index covers every partition, or keys of the others would be doubled",
    "hoodie.index.hbase.security.authentication": "HBase's Thrift server does the log-in to a secured HBase; set it up there",
    "hoodie.index.hbase.kerberos.user.keytab": "HBase's Thrift server does the log-in to a secured HBase; set it up there",
    "hoodie.index.hbase.kerberos.user.principal": "HBase's Thrift server does the log-in to a secured HBase; set it up there",
    "hoodie.index.hbase.regionserver.kerberos.principal": "HBase's Thrift server does the log-in to a secured HBase; set it up there",
    "hoodie.index.hbase.master.kerberos.principal": "HBase's Thrift server does the log-in to a secured HBase; set it up there",
    "hoodie.index.hbase.bucket.number": "it belongs to RebalancedSparkHoodieHBaseIndex, whose row keys are others; rows are laid out as SparkHoodieHBaseIndex does it",
    "hoodie.metadata.enable": "no metadata table is written; lakeindex.metadata.table says what to do with one",
    "hoodie.metadata.index.bloom.filter.enable": "no metadata table is written; lakeindex.footer.cache keeps filters",
    "hoodie.metadata.index.column.stats.enable": "no metadata table is written; lakeindex.footer.cache keeps key ranges",
    "hoodie.metadata.record.index.enable": "choose hoodie.index.type=RECORD_INDEX and `lakeindex index build`",
    "hoodie.metadata.global.record.level.index.enable": "choose hoodie.index.type=RECORD_INDEX and `lakeindex index build`",
    "hoodie.metadata.record.level.index.enable": "choose hoodie.index.type=RECORD_LEVEL_INDEX and `lakeindex index build`",
    "hoodie.merge.allow.duplicate.on.inserts": "an upsert never doubles a key",
    "hoodie.populate.meta.fields": "rows without meta columns cannot be found by key",
}
"""Options of Hudi that would promise what is not done here, and what to do instead."""

NOTED_VALUES: Final[dict[str, str]] = {
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.partition.rule.type": "REGEX",
    "hoodie.combine.before.upsert": "TRUE",
    "hoodie.combine.before.delete": "TRUE",
}
"""Noted options of which only one value can be had."""
