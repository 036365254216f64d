"""What options become: frozen values that travel inside the library, and the choices among their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeindex.model import IndexType, KeyGeneratorType, MergeMode


class FilterSizing(StrEnum):
    """How a filter's bits are chosen: from each file's row count, or Hudi's fixed number of entries."""

    EXACT = "exact"
    FIXED = "fixed"


class FilterType(StrEnum):
    """Filter types of ``hoodie.bloom.index.filter.type``."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


class MetadataTablePolicy(StrEnum):
    """What to do with a table that has a metadata table, which our commits would leave stale."""

    REFUSE = "refuse"
    DROP = "drop"


class InputFormat(StrEnum):
    """Format of the input files; ``auto`` goes by the file's suffix."""

    AUTO = "auto"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


class StagedCodec(StrEnum):
    """Compression of the staged batch; ``auto``: none where it crosses no network."""

    AUTO = "auto"
    ZSTD = "zstd"
    LZ4 = "lz4"
    UNCOMPRESSED = "uncompressed"


class ReportFormat(StrEnum):
    """What a run leaves of its report: a page and JSON, JSON alone, nothing."""

    HTML = "html"
    JSON = "json"
    NONE = "none"


class Codec(StrEnum):
    """Parquet compression codecs we write and every reader of Hudi tables knows."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"
    UNCOMPRESSED = "uncompressed"


@dataclass(frozen=True, slots=True)
class WriteConfig:
    """Everything a write may be told, typed. ``None`` means: from the table, or worked out from the data."""

    index_type: IndexType | None = None
    merge_mode: MergeMode | None = None
    buckets: int | None = None
    bucket_fields: str | None = None
    bucket_rules: str | None = None
    bucket_key_rule: str | None = None
    state_is_global: bool | None = None
    state_ttl_days: float | None = None
    state_folder: str | None = None
    state_partitions: int = 8
    hbase_table: str | None = None
    hbase_host: str = "127.0.0.1"
    hbase_port: int = 9090
    hbase_get_batch: int = 1_000
    hbase_put_batch: int = 1_000
    hbase_max_qps: int = 0
    hbase_qps_fraction: float = 0.5
    hbase_rollback_sync: bool = True
    hbase_verify_puts: bool = True
    hbase_create_table: bool = False
    hbase_connect_seconds: int = 10
    hbase_retry_seconds: int = 60
    prune_by_ranges: bool = True
    treebased_filter: bool | None = None
    bloom_moves_rows: bool = True
    simple_moves_rows: bool = True
    record_moves_rows: bool = False
    hbase_moves_rows: bool = False
    filters_from_cache_only: bool = False
    footer_cache: bool = True
    filter_type: FilterType = FilterType.DYNAMIC_V0
    filter_sizing: FilterSizing = FilterSizing.EXACT
    filter_entries: int = 60_000
    filter_fpp: float | None = None
    filter_max_entries: int = 100_000
    max_file_bytes: int = 125_829_120
    small_file_bytes: int = 104_857_600
    record_bytes_estimate: int | None = None
    codec: Codec = Codec.ZSTD
    row_group_rows: int = 25_000
    chunk_rows: int = 250_000
    staged_codec: StagedCodec = StagedCodec.AUTO
    input_format: InputFormat = InputFormat.AUTO
    metadata_table: MetadataTablePolicy = MetadataTablePolicy.REFUSE
    complex_key_new_encoding: bool | None = None
    pending_foreign_max_age_seconds: int = 7_200
    lock_lease_seconds: int = 60
    lock_wait_seconds: int = 300
    clock_max_skew_seconds: int = 600
    conflict_retries: int = 5
    parallelism: int = 0
    memory: int | None = None
    driver_bytes: int = 64 * 2**20
    keep_runs: int = 10
    keep_dead_runs_days: float = 30.0
    cleaner_commits: int = 10
    archive_commits: int = 20
    report: ReportFormat | None = None
    metrics_textfile: str | None = None
    openlineage: bool = False
    index_max_deltas: int = 10
    record_min_shards: int = 10
    record_max_shards: int = 10_000
    record_shard_bytes: int = 1_073_741_824
    record_growth: float = 2.0
    notes: tuple[str, ...] = ()

    def moves_rows(self, index_type: IndexType) -> bool:
        """Whether a row of a global index moves to the partition it arrives with,
        rather than being updated where it is.
        """
        return {
            IndexType.GLOBAL_SIMPLE: self.simple_moves_rows,
            IndexType.RECORD_INDEX: self.record_moves_rows,
            IndexType.HBASE: self.hbase_moves_rows,
            IndexType.STATE: True,
        }.get(index_type, self.bloom_moves_rows)


@dataclass(frozen=True, slots=True)
class CreateConfig:
    """Everything the making of a table may be told, typed. ``None`` means: worked out from the other choices."""

    index_type: IndexType | None = None
    merge_mode: MergeMode | None = None
    buckets: int | None = None
    bucket_fields: str | None = None
    bucket_rules: str | None = None
    bucket_key_rule: str | None = None
    state_is_global: bool | None = None
    state_ttl_days: float | None = None
    hbase_table: str | None = None
    complex_key_new_encoding: bool | None = None
    key_generator: KeyGeneratorType | None = None
    hive_style: bool = False
    url_encode: bool = False
    database: str = ""
    timebased: Mapping[str, str] = field(default_factory=dict)
