"""What options become: frozen values that travel inside the library, and the choices among their values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from msgspec import field
from msgspec.structs import replace

from lakeindex.frozen import Frozen
from lakeindex.model import IndexType, KeyGeneratorType, MergeMode

_Area = TypeVar("_Area")


class FilterSizing(StrEnum):
    """How a filter's bits are chosen: from each file's row count, or Hudi's fixed number of entries."""

    EXACT = "exact"
    FIXED = "fixed"


class FilterType(StrEnum):
    """Filter types of ``hoodie.bloom.index.filter.type``."""

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


class MetadataTablePolicy(StrEnum):
    """What to do with a table that has a metadata table."""

    KEEP = "keep"
    REFUSE = "refuse"


class LockProvider(StrEnum):
    """Hudi's locks that are taken part in, by their Java classes."""

    FILE_SYSTEM = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    STORAGE = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"


class ConcurrencyMode(StrEnum):
    """Whether Hudi's writers share the table."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"


class InputFormat(StrEnum):
    """Format of the input files; ``auto`` goes by the file's suffix."""

    AUTO = "auto"
    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


class CsvFormat(Frozen):
    """How CSV files are written.

    Attributes:
        quote: stands around fields that hold it, the delimiter or an end of line, and is doubled inside; empty: none.
        nulls: fields without quotes that are null.
        header: whether the first row names the columns; otherwise they are the table's, in order.
    """

    delimiter: str = ","
    quote: str = '"'
    nulls: tuple[str, ...] = ("",)
    header: bool = True


PLAIN_CSV: Final = CsvFormat()


class SchemaMode(StrEnum):
    """What a batch may change of the table's columns: nothing; add some; add some and make some wider."""

    STRICT = "strict"
    ADD = "add"
    WIDEN = "widen"


class UnknownProperties(StrEnum):
    """What a write does about properties of the table that lakeindex does not know."""

    REFUSE = "refuse"
    ACCEPT = "accept"


class Version10(StrEnum):
    """What a write does to a table of version 10."""

    REFUSE = "refuse"
    WRITE = "write"


class PartialUpdate(StrEnum):
    """Whether a batch may lack columns that then stay as they are in the rows that it updates, and what its nulls do:
    they are stored, or leave the stored value.
    """

    OFF = "off"
    OVERWRITE = "overwrite"
    KEEP = "keep"


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


class Config(Frozen):
    """What a write and the making of a table have in common.

    Attributes:
        index_type: the index type that is asked for.
        merge_mode: which version of a record wins.
        complex_key_new_encoding: how a complex key of one field is stored.
        key_options: how keys are spelled, where the table's properties do not say it: name and text, sorted.
        csv_delimiter: as of :class:`CsvFormat`, like the next three.
        areas: options of index kinds that were given, one value a kind: ask :meth:`of`.
    """

    index_type: IndexType | None = None
    merge_mode: MergeMode | None = None
    complex_key_new_encoding: bool | None = None
    key_options: tuple[tuple[str, str], ...] = ()
    csv_delimiter: str = ","
    csv_quote: str = '"'
    csv_nulls: tuple[str, ...] = ("",)
    csv_header: bool = True
    areas: tuple[Any, ...] = ()
    version10: Version10 = Version10.REFUSE

    @property
    def csv(self) -> CsvFormat:
        """How CSV files are written."""
        return CsvFormat(self.csv_delimiter, self.csv_quote, self.csv_nulls, self.csv_header)

    def of(self, area: type[_Area]) -> _Area:
        """The options of an index kind, typed as its own class; the defaults if none was given."""
        return next((one for one in self.areas if type(one) is area), area())

    def given(self, area: type | None, field_name: str) -> Any:
        """Value of a field of an index kind's options, or of its own."""
        return getattr(self if area is None else self.of(area), field_name)

    def having(self, area: type | None, field_name: str, value: object) -> Self:
        """The same with another value of a field of an index kind's options, or of its own."""
        change: dict[str, Any] = {field_name: value}
        if area is None:
            return replace(self, **change)
        others = tuple(one for one in self.areas if type(one) is not area)
        mine: Any = replace(self.of(area), **change)
        kept = others if mine == area() else (*others, mine)
        return replace(self, areas=tuple(sorted(kept, key=lambda one: type(one).__qualname__)))


class DuplicatePolicy(StrEnum):
    """What becomes of a row to insert whose key is stored (``hoodie.datasource.insert.dup.policy``)."""

    FAIL = "fail"
    DROP = "drop"


class BulkSort(StrEnum):
    """How a bulk insert sorts its rows (``hoodie.bulkinsert.sort.mode``)."""

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"


class WriteConfig(Config):
    """Everything a write may be told, typed. ``None`` means: from the table, or worked out from the data."""

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
    schema_mode: SchemaMode = SchemaMode.STRICT
    null_for_missing: bool = False
    partial_update: PartialUpdate = PartialUpdate.OFF
    merge_function: str | None = None
    insert_duplicates: DuplicatePolicy = DuplicatePolicy.FAIL
    bulk_sort: BulkSort = BulkSort.NONE
    update_if: str | None = None
    delete_if: str | None = None
    insert_if: str | None = None
    metadata_table: MetadataTablePolicy = MetadataTablePolicy.KEEP
    unknown_properties: UnknownProperties = UnknownProperties.REFUSE
    use_metadata: bool = True
    pending_foreign_max_age_seconds: int = 7_200
    lock_lease_seconds: int = 60
    lock_wait_seconds: int = 300
    lock_provider: LockProvider | None = None
    concurrency_mode: ConcurrencyMode | None = None
    lock_path: str | None = None
    lock_expire_minutes: int = 0
    lock_validity_seconds: int = 300
    lock_renew_seconds: int = 30
    clock_max_skew_seconds: int = 600
    conflict_retries: int = 5
    parallelism: int = 0
    processes: int = 0
    memory: int | None = None
    driver_bytes: int = 64 * 2**20
    keep_runs: int = 10
    keep_dead_runs_days: float = 30.0
    cleaner_commits: int = 10
    archive_commits: int = 20
    savepoints: int = 0
    report: ReportFormat | None = None
    metrics_textfile: str | None = None
    openlineage: bool = False
    index_max_deltas: int = 10
    notes: tuple[str, ...] = ()

    @property
    def encoding(self) -> tuple[object, ...]:
        """What the bytes of a base file depend on, beside its rows."""
        filters = (self.filter_type, self.filter_sizing, self.filter_entries, self.filter_fpp, self.filter_max_entries)
        return (self.codec, self.row_group_rows, *filters)


class CreateConfig(Config):
    """Everything the making of a table may be told, typed. ``None`` means: worked out from the other choices."""

    table_version: int = 6
    key_generator: KeyGeneratorType | None = None
    hive_style: bool = False
    url_encode: bool = False
    database: str = ""
    populate_meta_fields: bool = True
    timebased: Mapping[str, str] = field(default_factory=dict)
