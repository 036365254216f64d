"""The table of options: each is typed once, in one row; and which lock providers of Hudi are supported, with which
settings.

Users give ``-o key=value`` pairs under Hudi's ``hoodie.*`` names (``lakeindex.*`` for what Hudi does not have).
``OPTIONS`` (for writes) and ``CREATE_OPTIONS`` (for ``create``) are the single lists: the parsers, the error messages
and the tables in docs/options.md are made from them. Options of an index kind stand in its own folder
(``lakeindex.index.<kind>_options``) and are found by the kind's line in :class:`lakeindex.model.IndexType`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import Any, Final

from msgspec.structs import replace

from lakeindex.errors import OptionError
from lakeindex.frozen import Frozen
from lakeindex.model import INDEX_ALIASES, IndexType, KeyGeneratorType, MergeMode
from lakeindex.options.clustering_options import AREA as CLUSTERING_AREA
from lakeindex.options.option import (
    CONDITION_OPTIONS,
    CSV_DELIMITER_OPTION,
    DUPLICATES_OPTION,
    FLAG,
    KEY_GENERATOR_CLASSES,
    MEMORY_OPTION,
    MERGE_OPTION,
    NULL_FOR_MISSING_OPTION,
    PARTIAL_OPTION,
    PARTITION_FIELDS_OPTION,
    SCHEMA_MODE_OPTION,
    TABLE_VERSION_OPTION,
    TABLE_VERSIONS,
    TIME_UNITS,
    TIMEBASED_PREFIX,
    TIMESTAMP_TEXT_OPTION,
    TIMESTAMP_TYPES,
    TIMESTAMP_ZONE_OPTION,
    UNKNOWN_PROPERTIES_OPTION,
    VERSION10_OPTION,
    Option,
    OptionArea,
    choice_of,
    csv_character,
    csv_quote,
    csv_words,
    days,
    flag,
    function_name,
    generator_class,
    index_type_named,
    memory,
    metadata_policy,
    names_of,
    number_of,
    one_of,
    probability,
    some_text,
    typed_fields,
    whole,
)
from lakeindex.options.sync_options import AREA as SYNC_AREA
from lakeindex.options.types import (
    BulkSort,
    Codec,
    ConcurrencyMode,
    Config,
    CreateConfig,
    DuplicatePolicy,
    FilterSizing,
    FilterType,
    InputFormat,
    LockProvider,
    MetadataTablePolicy,
    PartialUpdate,
    ReportFormat,
    SchemaMode,
    StagedCodec,
    UnknownProperties,
    Version10,
    WriteConfig,
)

PROVIDER_OPTION: Final = "hoodie.write.lock.provider"
MODE_OPTION: Final = "hoodie.write.concurrency.mode"
PATH_OPTION: Final = "hoodie.write.lock.filesystem.path"
VALIDITY_OPTION: Final = "hoodie.write.lock.storage.validity.timeout.secs"
RENEWAL_OPTION: Final = "hoodie.write.lock.storage.renew.interval.secs"

REFUSED_PROVIDERS: Final[dict[str, str]] = {
    "ZookeeperBasedLockProvider": "it needs a ZooKeeper",
    "ZookeeperBasedImplicitBasePathLockProvider": "it needs a ZooKeeper",
    "HiveMetastoreBasedLockProvider": "it needs a Hive metastore",
    "DynamoDBBasedLockProvider": "it needs a DynamoDB",
    "DynamoDBBasedImplicitPartitionKeyLockProvider": "it needs a DynamoDB",
    "InProcessLockProvider": "it locks one process of Java",
    "NoopLockProvider": "it locks nothing",
}
"""Hudi's other providers by the last part of their class, and why there is no taking part in them."""

_RENEWALS: Final = 10


def lock_provider(text: str) -> LockProvider:
    """A provider by its Java class. Raises: OptionError: one of Hudi's that is not taken part in."""
    name = text.strip()
    if name in tuple(LockProvider):
        return LockProvider(name)
    why = REFUSED_PROVIDERS.get(name.rpartition(".")[2])
    if why is None:
        raise ValueError(text)
    raise OptionError(
        f"option {PROVIDER_OPTION} cannot be {name!r}: {why}, and lakeindex takes no part in it",
        culprit=PROVIDER_OPTION,
        hint=f"valid: {' | '.join(LockProvider)}, in Hudi's writers, too",
    )


def check_locks(config: WriteConfig) -> None:
    """Settings that contradict each other. Raises: OptionError."""
    provider, mode = config.lock_provider, config.concurrency_mode
    if provider is None and mode is ConcurrencyMode.OPTIMISTIC:
        raise OptionError(
            f"option {MODE_OPTION}={mode} needs a lock",
            culprit=MODE_OPTION,
            hint=f"give {PROVIDER_OPTION}, the same as Hudi's writers: {' | '.join(LockProvider)}",
        )
    if provider is not None and mode is ConcurrencyMode.SINGLE_WRITER:
        raise OptionError(
            f"option {MODE_OPTION}={mode} contradicts {PROVIDER_OPTION}: Hudi then takes no lock",
            culprit=MODE_OPTION,
            hint=f"leave one of the two out, or give {ConcurrencyMode.OPTIMISTIC}",
        )
    if config.lock_path is not None and provider is not LockProvider.FILE_SYSTEM:
        raise OptionError(
            f"option {PATH_OPTION} has no meaning without {PROVIDER_OPTION}={LockProvider.FILE_SYSTEM}",
            culprit=PATH_OPTION,
            hint="give both, as in Hudi's writers",
        )
    if config.lock_validity_seconds < _RENEWALS * config.lock_renew_seconds:
        raise OptionError(
            f"option {VALIDITY_OPTION}={config.lock_validity_seconds} is less than {_RENEWALS} times "
            f"{RENEWAL_OPTION}={config.lock_renew_seconds}",
            culprit=VALIDITY_OPTION,
            hint="Hudi refuses that, too: raise the one or lower the other",
        )


KEY_OPTIONS: Final = "key_options"
"""Field of the options that say how keys are made: they are kept as they are, under Hudi's names."""

# Tables of options, not code: the formatter would give each argument a line.
# fmt: off
_GENERAL: Final[tuple[Option, ...]] = (
    Option("hoodie.index.type", "index_type", index_type_named, " | ".join((*IndexType, *INDEX_ALIASES)),
           "Index that finds the file of a key. Bound when the table is created (default BLOOM). On a table of "
           "another writer, the first write binds the type that its files show. INMEMORY keeps a hash map in one "
           "process, for tests and small tables.", True),
    Option("hoodie.write.record.merge.mode", "merge_mode", one_of(MergeMode), names_of(MergeMode),
           "Decides which version of a record is kept: the one with the greater ordering value, or the one written "
           "last. Bound when the table is created. Default: event time if the table has an ordering field, "
           "otherwise commit time. If the properties of a Hudi table do not state it, the first write must.", True),
    Option("hoodie.write.complex.keygen.new.encoding", "complex_key_new_encoding", flag, FLAG,
           "Complex key generator with exactly one key field: `true` stores the record key as `value`, `false` as "
           "`field:value`. Bound. Required by `create`, because Hudi 0.15 and 1.2 have different defaults. On "
           "tables of other writers it is detected from the stored keys.", True),
)

_KEY_OPTIONS: Final[tuple[Option, ...]] = (
    Option(TIMESTAMP_TEXT_OPTION, KEY_OPTIONS, flag, FLAG,
           "`true`: timestamps in record keys and partition paths are texts (`2016-12-29 09:54:00.0`), not numbers of "
           "microseconds. Hudi's row writer (`bulk_insert`) stores them so whatever the option says. Bound. On tables "
           "of other writers the stored keys show it.", True, "false"),
    Option(TIMESTAMP_ZONE_OPTION, KEY_OPTIONS, some_text, "a time zone",
           "Time zone of these texts: that of the other writers' JVM. Bound, and compared with the stored keys.", True,
           "UTC"),
    Option(PARTITION_FIELDS_OPTION, KEY_OPTIONS, typed_fields, "field:SIMPLE or field:TIMESTAMP, separated by commas",
           "Types of the partition fields of a CUSTOM key generator, for the first write to a table of Hudi 0.15, "
           "whose properties do not have them."),
    Option("hoodie.datasource.write.hive_style_partitioning", KEY_OPTIONS, flag, FLAG,
           "Name partition folders `field=value`. For `create`; and for the first write to a table of another writer "
           "whose folders are otherwise than its properties say: compared with the stored paths, and bound.",
           False, "false"),
    Option("hoodie.datasource.write.partitionpath.urlencode", KEY_OPTIONS, flag, FLAG,
           "Escape partition values. Without it, a `/` in a value creates a nested folder. Likewise for `create`, and "
           "for a first write.", False, "false"),
    Option(TIMEBASED_PREFIX + "timestamp.type", KEY_OPTIONS, choice_of(*TIMESTAMP_TYPES), " | ".join(TIMESTAMP_TYPES),
           "TIMESTAMP key generator, and TIMESTAMP fields of a CUSTOM one: how the partition field stores the time. "
           "Bound. Hudi 0.15 leaves it out of the properties, and both releases leave all options of times out of "
           "those of a CUSTOM key generator: the first write says them then, compared with stored paths.", True),
    Option(TIMEBASED_PREFIX + "timestamp.scalar.time.unit", KEY_OPTIONS, choice_of(*TIME_UNITS), " | ".join(TIME_UNITS),
           "Unit of a SCALAR timestamp, which counts from the epoch. Bound.", True),
    Option(TIMEBASED_PREFIX + "input.dateformat", KEY_OPTIONS, some_text, "Java date patterns",
           "Patterns of a DATE_STRING or MIXED timestamp. The first pattern that fits is used. Bound.", True),
    Option(TIMEBASED_PREFIX + "input.dateformat.list.delimiter.regex", KEY_OPTIONS, some_text, "a regular expression",
           "Separator of several input patterns. Default: `,`. Bound.", True),
    Option(TIMEBASED_PREFIX + "input.timezone", KEY_OPTIONS, some_text, "a time zone",
           "Time zone of input texts that do not name one. Bound.", True),
    Option(TIMEBASED_PREFIX + "output.dateformat", KEY_OPTIONS, some_text, "a Java date pattern",
           "Pattern of the partition path, for example `yyyy/MM/dd`. Bound.", True),
    Option(TIMEBASED_PREFIX + "output.timezone", KEY_OPTIONS, some_text, "a time zone",
           "Time zone of the partition path. Bound.", True),
    Option(TIMEBASED_PREFIX + "timezone", KEY_OPTIONS, some_text, "a time zone",
           "Time zone of both input and partition path. Bound.", True),
)

_AREAS: Final[dict[str, tuple[Option, ...]]] = {
    "All stored indexes": (
        Option("hoodie.metadata.compact.max.delta.commits", "index_max_deltas", whole(1, 10_000), "deltas, 1 .. 10000",
               "Stored index: number of deltas after which the index is compacted."),
    ),
    "Footers and bloom filters": (
        Option("lakeindex.footer.cache", "footer_cache", flag, FLAG,
               "Cache key ranges, row counts and bloom filters of base files in the table's "
               "`.hoodie/.lakeindex/cache` folder."),
        Option("hoodie.bloom.index.filter.type", "filter_type", one_of(FilterType), names_of(FilterType),
               "Type of the bloom filters that are written to footers."),
        Option("lakeindex.bloom.sizing", "filter_sizing", one_of(FilterSizing), names_of(FilterSizing),
               "`exact` sizes each filter for 1.25 times the rows of its file. `fixed` sizes filters as Hudi does, by "
               "`hoodie.index.bloom.num_entries`."),
        Option("hoodie.index.bloom.num_entries", "filter_entries", whole(1, 2**31 - 1), "1 .. 2147483647",
               "With `fixed` sizing: number of entries that one filter row is sized for."),
        Option("hoodie.index.bloom.fpp", "filter_fpp", probability, "between 0 and 1, exclusive",
               "False-positive probability of a filter. Default: 1e-6 with `exact` sizing, 1e-9 with `fixed` sizing."),
        Option("hoodie.bloom.index.filter.dynamic.max.entries", "filter_max_entries", whole(1, 2**31 - 1),
               "1 .. 2147483647", "With `fixed` sizing: number of entries up to which a DYNAMIC_V0 filter grows."),
    ),
    "Base files": (
        Option("hoodie.parquet.max.file.size", "max_file_bytes", whole(1), "bytes, 1 or more",
               "Target size of a base file. New rows beyond it go to another file group."),
        Option("hoodie.parquet.small.file.limit", "small_file_bytes", whole(0), "bytes, 0 or more (0: never fill)",
               "New rows go to base files smaller than this first."),
        Option("hoodie.copyonwrite.record.size.estimate", "record_bytes_estimate", whole(1), "bytes, 1 or more",
               "Size of a record on disk. Default: estimated by encoding a sample of the batch."),
        Option("hoodie.parquet.compression.codec", "codec", one_of(Codec), names_of(Codec),
               "Compression of base files."),
        Option("lakeindex.parquet.row.group.rows", "row_group_rows", whole(1, 2**31 - 1), "rows, 1 or more",
               "Rows in a row group of a base file. Within a row group, rows are sorted by key."),
    ),
    "Input and staging": (
        Option("lakeindex.input.format", "input_format", one_of(InputFormat), names_of(InputFormat),
               "Format of the input files. `auto` derives it from the suffix (.parquet; .csv, .json, .jsonl, "
               ".ndjson, also packed as .gz, .zst or .bz2)."),
        Option(CSV_DELIMITER_OPTION, "csv_delimiter", csv_character, "a character, or tab",
               "CSV: what stands between two fields."),
        Option("lakeindex.csv.quote", "csv_quote", csv_quote, "a character, or none",
               "CSV: what stands around fields that hold it, the delimiter or an end of line; inside it is doubled."),
        Option("lakeindex.csv.null", "csv_nulls", csv_words, "words between commas, of which one may be empty",
               "CSV: which fields are null where they have no quotes, for example `NULL,NA,` (with the empty field) or "
               "`\\N` (without it). Default: the empty field alone. In columns that are no text an empty field is null "
               "in any case."),
        Option("lakeindex.csv.header", "csv_header", flag, FLAG,
               "CSV: whether the first row names the columns. `false`: they are the table's, in order; for a delete "
               "those of its key and partition path."),
        Option(SCHEMA_MODE_OPTION, "schema_mode", one_of(SchemaMode), names_of(SchemaMode),
               "What a batch may change of the table's columns. `strict`: nothing. `add`: columns, and fields of "
               "structs, that the table does not have are added. `widen`: the same, and numbers become wider (int, "
               "long, float, double; decimals with more digits)."),
        Option(NULL_FOR_MISSING_OPTION, "null_for_missing", flag, FLAG,
               "A batch may lack columns that can be null: they are null in its rows, also in those that update stored "
               "ones. `false`: such a batch is refused."),
        Option(PARTIAL_OPTION, "partial_update", one_of(PartialUpdate), names_of(PartialUpdate),
               "Upsert: a batch may lack columns; they stay as they are in the rows that it updates, and are null in "
               "those that it inserts. A null of the batch is stored (`overwrite`), or leaves the stored value "
               "(`keep`)."),
        Option(MERGE_OPTION, "merge_function", function_name, "module:function",
               "Upsert: a Python function that gets stored rows and rows of the batch with their keys, as Arrow "
               "tables, and returns what is stored."),
        Option(DUPLICATES_OPTION, "insert_duplicates", one_of(DuplicatePolicy), names_of(DuplicatePolicy),
               "Insert and insert overwrite: a row whose key is stored. `fail`: it is a bad row. `drop`: it is left "
               "out, and counted as ignored. Hudi's `none` would store the key twice."),
        Option("hoodie.bulkinsert.sort.mode", "bulk_sort", one_of(BulkSort), names_of(BulkSort),
               "Bulk insert: with `GLOBAL_SORT` the files of a partition have no key range in common, so that a bloom "
               "index prunes them by range. The other two give the same: the rows of each file are sorted."),
        Option(CONDITION_OPTIONS["update_if"], "update_if", some_text, "a condition over old.<column> and new.<column>",
               "Upsert: a row whose key is stored replaces the stored row only if this holds; otherwise it is ignored "
               "(docs/operations.md)."),
        Option(CONDITION_OPTIONS["delete_if"], "delete_if", some_text, "a condition over old.<column> and new.<column>",
               "Upsert: a stored row is deleted if this holds for it and the incoming row of its key. It is asked "
               "before `lakeindex.update.if`."),
        Option(CONDITION_OPTIONS["insert_if"], "insert_if", some_text, "a condition over new.<column>",
               "Upsert: a row whose key is not stored is inserted only if this holds; otherwise it is ignored."),
        Option("lakeindex.staged.codec", "staged_codec", one_of(StagedCodec), names_of(StagedCodec),
               "Compression of the staged batch. `auto`: uncompressed if the run folder is on a local "
               "disk, otherwise zstd."),
        Option("lakeindex.chunk.rows", "chunk_rows", whole(1, 2**31 - 1), "rows, 1 or more",
               "Maximum number of rows in a chunk. A chunk is one row group of the staged batch and the "
               "unit of look-up work."),
    ),
    "Parallelism and memory": (
        Option("lakeindex.parallelism", "parallelism", whole(0, 10_000), "tasks at once, 0 .. 10000",
               "Number of tasks that run at once. 0: one task for each core (local runner) or Spark's "
               "default parallelism."),
        Option("lakeindex.processes", "processes", whole(0, 10_000), "processes, 0 .. 10000",
               "Local runner: number of processes that work at once in a step that has 500 or more base files, where "
               "most of the work is Python's. Each takes 256m of `lakeindex.memory`. 0: one for each task that runs "
               "at once. 1: this process only."),
        Option(MEMORY_OPTION, "memory", memory, "bytes, or a number with k, m or g; 64m or more",
               "Limit on the memory that the tasks of one process hold together; on Spark, of all tasks that run at "
               "once. A batch that needs more is spilled into the run folder. Default: half of the machine's (or the "
               "cgroup's) memory, at least 512m."),
        Option("lakeindex.spark.driver.bytes", "driver_bytes", whole(0), "bytes, 0 or more",
               "Spark runner: a step that reads at most this many bytes runs on the driver's cores, without a Spark "
               "job. While a spark-submit job has no executors, the limit is four times as high; if no step exceeds "
               "it, no executors are started. 0: every step is a Spark job."),
    ),
    "Other writers": (
        Option("lakeindex.lock.wait", "lock_wait_seconds", whole(0, 86_400), "seconds, 0 .. 86400",
               "How long a run waits for the table's lock before it ends with exit code 5."),
        Option("lakeindex.lock.lease", "lock_lease_seconds", whole(2, 86_400), "seconds, 2 .. 86400",
               "Lease of the table's lock and of a run. If the holder does not renew it in time, "
               "another writer may take over."),
        Option("lakeindex.conflict.retries", "conflict_retries", whole(0, 100), "0 .. 100",
               "How many times a run repeats its look-up and its plan because another writer changed "
               "the same file groups."),
        Option("lakeindex.pending.foreign.max.age", "pending_foreign_max_age_seconds", whole(0), "seconds, 0 or more",
               "Age at which an unfinished instant of another writer is considered dead and rolled back."),
        Option(PROVIDER_OPTION, "lock_provider", lock_provider, names_of(LockProvider),
               "Hudi's lock, which every operation then takes with its own, so that Hudi's writers may write at the "
               "same time. They need the same provider and more settings (docs/compatibility.md). Default: none."),
        Option(MODE_OPTION, "concurrency_mode", one_of(ConcurrencyMode), names_of(ConcurrencyMode),
               "As Hudi's writers have it; it changes nothing by itself. With the second, "
               "`hoodie.write.lock.provider` is required; with the first, it is refused."),
        Option(PATH_OPTION, "lock_path", some_text, "a path or URL",
               "FileSystemBasedLockProvider: folder of the file `lock`. Default: the table's `.hoodie`."),
        Option("hoodie.write.lock.filesystem.expire", "lock_expire_minutes", whole(0, 100_000),
               "minutes, 0 or more (0: never)",
               "FileSystemBasedLockProvider: age at which a lock may be taken from its holder. Nobody renews it, so "
               "that it must be longer than any commit."),
        Option(VALIDITY_OPTION, "lock_validity_seconds", whole(10, 86_400), "seconds, 10 .. 86400",
               "StorageBasedLockProvider: for how long a lock is valid that is not renewed."),
        Option(RENEWAL_OPTION, "lock_renew_seconds", whole(1, 8_640), "seconds, 1 .. 8640",
               "StorageBasedLockProvider: pause between two renewals; at most a tenth of the validity."),
        Option("lakeindex.metadata.table", "metadata_table", metadata_policy, names_of(MetadataTablePolicy),
               "What happens if the table has a metadata table. `keep`: every commit keeps it up. "
               "`refuse`: the write is refused."),
        Option(UNKNOWN_PROPERTIES_OPTION, "unknown_properties", one_of(UnknownProperties), names_of(UnknownProperties),
               "What happens if `hoodie.properties` has a property that this release does not know. `refuse`: the "
               "write is refused and names it. `accept`: it goes on, for who knows that the property is no matter to a "
               "writer."),
        Option(VERSION10_OPTION, "version10", one_of(Version10), names_of(Version10),
               "What happens to a table of version 10, which Hudi 1.3 is going to make. `refuse`: it is read, and a "
               "write is refused. `write`: it is written to as Hudi's main branch does; no release of Hudi has been "
               "run on the result yet."),
        Option("hoodie.metadata.enable", "use_metadata", flag, FLAG,
               "Use the metadata table, if there is one: it names the table's files. `false`: folders are listed. "
               "It is kept up either way."),
        Option("lakeindex.clock.max.skew", "clock_max_skew_seconds", whole(0, 86_400),
               "seconds, 0 .. 86400 (0: no check)",
               "Maximum difference between the clock of this machine and that of the storage. "
               "With 0, the time zone of the table's instants is not checked either."),
    ),
    "Retention": (
        Option("hoodie.cleaner.commits.retained", "cleaner_commits", whole(1), "commits, 1 or more",
               "`clean`: number of commits whose base files stay readable."),
        Option("hoodie.keep.min.commits", "archive_commits", whole(1), "commits, 1 or more",
               "`archive`: number of commits that stay on the timeline. "
               "It must not be less than `hoodie.cleaner.commits.retained`."),
        Option("lakeindex.maintain.savepoints", "savepoints", whole(0, 1_000), "savepoints, 0 or more",
               "`maintain`: make a savepoint of the newest commit each time, and keep so many of those that it made. "
               "Archiving stops at the oldest."),
        Option("lakeindex.checkpoint.keep.runs", "keep_runs", whole(0, 1_000_000), "runs, 0 or more",
               "Number of finished runs whose checkpoints, quarantine files and reports are kept."),
        Option("lakeindex.checkpoint.keep.dead.days", "keep_dead_runs_days", days, "days, 0 or more",
               "`maintain`: age at which the folder of a run that never finished is deleted, "
               "with its quarantine files."),
    ),
    "Reports and metrics": (
        Option("lakeindex.report", "report", one_of(ReportFormat), "html, json or none",
               "Report that a run writes to its folder: `json` writes report.json, `html` also report.html. Default: "
               "html from jobs and Airflow, otherwise json."),
        Option("lakeindex.metrics.textfile", "metrics_textfile", some_text, "a local file NAME.prom, or a local folder",
               "File for the run's metrics, read by Prometheus's textfile collector. "
               "In a folder, each table gets its own file. Needs the extra `metrics`."),
        Option("lakeindex.openlineage", "openlineage", flag, FLAG,
               "Emit OpenLineage events. OpenLineage's own settings say where to. Needs the extra `lineage`."),
    ),
}

_CREATE_ONLY: Final[tuple[Option, ...]] = (
    Option(TABLE_VERSION_OPTION, "table_version", number_of(*TABLE_VERSIONS),
           " | ".join(map(str, TABLE_VERSIONS)),
           "Version of the new table. 6 is read and written by Hudi 0.14 and later, 8 by 1.0 and later, "
           f"9 by 1.1 and later, 10 by none that is released yet ({VERSION10_OPTION}=write makes one)."),
    Option("hoodie.table.keygenerator.type", "key_generator", one_of(KeyGeneratorType), names_of(KeyGeneratorType),
           "Key generator. Default: NON_PARTITION without partition fields, SIMPLE with one key field and one "
           "partition field, otherwise COMPLEX. For CUSTOM, write partition fields as `field:SIMPLE` or "
           "`field:TIMESTAMP`."),
    Option("hoodie.table.keygenerator.class", "key_generator", generator_class, " | ".join(KEY_GENERATOR_CLASSES),
           "Key generator by its Java class, instead of `hoodie.table.keygenerator.type`."),
    Option("hoodie.datasource.write.hive_style_partitioning", "hive_style", flag, FLAG,
           "Name partition folders `field=value`."),
    Option("hoodie.datasource.write.partitionpath.urlencode", "url_encode", flag, FLAG,
           "Escape partition values. Without it, a `/` in a value creates a nested folder."),
    Option("hoodie.populate.meta.fields", "populate_meta_fields", flag, FLAG,
           "`false`: rows do not store their record key, partition path and commit (virtual keys). Keys are made from "
           "their columns, by an index without bloom filters (default SIMPLE), and nothing can be read incrementally."),
    Option("hoodie.database.name", "database", some_text, "a name", "Database of the table."),
)
# fmt: on


def _kind_areas() -> Iterator[tuple[OptionArea, tuple[IndexType, ...]]]:
    """Areas of the index kinds that have options, each with the types it is of."""
    for module in dict.fromkeys(kind.module for kind in IndexType):
        name = f"{module}_options"
        if find_spec(name) is not None:
            area: OptionArea = importlib.import_module(name).AREA
            yield area, tuple(kind for kind in IndexType if kind.module == module)


def _default(config: type[Frozen], option: Option) -> Any:
    found = dict(zip(reversed(config.__struct_fields__), reversed(config.__struct_defaults__), strict=False))
    return option.bound_default or found.get(option.field)


def _of_kind(area: OptionArea, types: tuple[IndexType, ...]) -> tuple[Option, ...]:
    return tuple(
        replace(
            option,
            area=area.config,
            bound_with=types if option.bound else (),
            default=_default(area.config, option),
        )
        for option in area.options
    )


def _of_config(config: type[Config], options: Iterable[Option]) -> tuple[Option, ...]:
    return tuple(replace(option, default=_default(config, option)) for option in options)


_KINDS: Final = tuple(_kind_areas())
KIND_AREAS: Final[dict[IndexType, OptionArea]] = {kind: area for area, types in _KINDS for kind in types}
"""The options of an index type, if it has any of its own."""

_WRITE_AREAS: Final[dict[str, tuple[Option, ...]]] = {
    "Index type and record merging": _of_config(WriteConfig, _GENERAL),
    "How keys are spelled": _of_config(WriteConfig, _KEY_OPTIONS),
    **{area.title: _of_kind(area, types) for area, types in _KINDS},
    **{title: _of_config(WriteConfig, options) for title, options in _AREAS.items()},
    CLUSTERING_AREA.title: _of_kind(CLUSTERING_AREA, ()),
    SYNC_AREA.title: _of_kind(SYNC_AREA, ()),
}
_CREATE_AREA: Final = _of_config(CreateConfig, _CREATE_ONLY)

OPTIONS: Final[tuple[Option, ...]] = tuple(option for area in _WRITE_AREAS.values() for option in area)
_OF_BOTH: Final = (
    option for option in OPTIONS if option.bound or option.field.startswith("csv_") or option.key == VERSION10_OPTION
)
CREATE_OPTIONS: Final[tuple[Option, ...]] = (*_OF_BOTH, *_CREATE_AREA)

_CREATE_ALONE: Final = tuple(one for one in _CREATE_AREA if one.key not in {option.key for option in OPTIONS})
OPTION_AREAS: Final[dict[str, tuple[Option, ...]]] = {**_WRITE_AREAS, "Key generator and partition path": _CREATE_ALONE}
"""Every option once, by area, as docs/options.md has them; only those of the last area are for ``create`` alone."""

BY_KEY: Final[dict[str, Option]] = {option.key: option for option in OPTIONS}
CREATE_BY_KEY: Final[dict[str, Option]] = {option.key: option for option in CREATE_OPTIONS}


def options_table(options: Iterable[Option] = OPTIONS) -> str:
    """Options as a Markdown table, by default those of a write."""
    lines = ["| option | valid | default | meaning |", "|---|---|---|---|"]
    for option in options:
        default = default_text(option.default)
        lines.append(f"| `{option.key}` | {option.valid.replace('|', '/')} | {default} | {option.text} |")
    return "\n".join(lines)


def default_text(default: object) -> str:
    """A default as the tables have it; nothing of one that is no text, number or flag."""
    if isinstance(default, bool):
        return str(default).lower()
    return default if isinstance(default, str) else str(default) if isinstance(default, (int, float)) else ""
