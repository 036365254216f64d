"""Options, typed once at the edge.

Users give ``-o key=value`` pairs under Hudi's ``hoodie.*`` names (``lakeindex.*`` for what Hudi does not have);
inside the library only the frozen :class:`WriteConfig` and :class:`CreateConfig` travel. ``OPTIONS`` (for writes) and
``CREATE_OPTIONS`` (for ``create``) are the single lists: the parsers, the error messages and the tables in the README
are made from them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from lakeindex.errors import OptionError
from lakeindex.foreign_options import NOTED_OPTIONS, NOTED_VALUES, REFUSED_OPTIONS
from lakeindex.model import GLOBAL_OPTION, INDEX_ALIASES, IndexSpec, IndexType, KeyGeneratorType, MergeMode
from lakeindex.option_types import (
    Codec,
    CreateConfig,
    FilterSizing,
    FilterType,
    InputFormat,
    MetadataTablePolicy,
    ReportFormat,
    StagedCodec,
    WriteConfig,
)
from lakeindex.option_values import (
    FLAG,
    KEY_GENERATOR_CLASSES,
    MEMORY_OPTION,
    TIME_UNITS,
    TIMESTAMP_TYPES,
    choice_of,
    days,
    flag,
    generator_class,
    growth,
    index_type_named,
    key_rule,
    memory,
    names_of,
    one_of,
    probability,
    share,
    some_text,
    whole,
)

__all__ = [
    "BY_KEY",
    "CREATE_BY_KEY",
    "CREATE_OPTIONS",
    "KEY_GENERATOR_CLASSES",
    "MEMORY_OPTION",
    "OPTIONS",
    "TIMEBASED_PREFIX",
    "Codec",
    "CreateConfig",
    "FilterSizing",
    "FilterType",
    "InputFormat",
    "MetadataTablePolicy",
    "Option",
    "Options",
    "ReportFormat",
    "StagedCodec",
    "WriteConfig",
    "index_spec",
    "option_texts",
    "options_table",
    "parse_create_options",
    "parse_options",
]


@dataclass(frozen=True, slots=True)
class Option:
    """One option: the name users write, the field it sets, how its text is read, and what is valid.

    Attributes:
        bound_at_creation: all writers must agree on it; it is bound when the table is created.
        bound_with: index types that it is bound for; with others it has no meaning.
        bound_default: text that is bound if the option is not given.
    """

    key: str
    field: str
    parse: Callable[[str], Any]
    valid: str
    text: str
    bound_at_creation: bool = False
    bound_with: tuple[IndexType, ...] = ()
    bound_default: str = ""

    @property
    def default(self) -> Any:
        """The value when the option is not given."""
        return self.bound_default or _DEFAULTS.get(self.field)


_DEFAULTS: Final[dict[str, Any]] = {f.name: f.default for kind in (CreateConfig, WriteConfig) for f in fields(kind)}
_TIMEBASED: Final = "timebased"

TIMEBASED_PREFIX: Final = "hoodie.keygen.timebased."
"""Options of the timestamp-based key generator; the table's properties keep them under the same names."""

_BUCKET: Final = (IndexType.BUCKET,)

# Tables of options, not code: the formatter would give each argument a line.
# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("hoodie.index.type", "index_type", index_type_named, " | ".join((*IndexType, *INDEX_ALIASES)),
           "Index that finds where a key lives. Bound when the table is created (default BLOOM), or by the first write to another "
           "writer's table, as its files show. INMEMORY is a hash map of one process, for tests and small tables.", True),
    Option("hoodie.bucket.index.num.buckets", "buckets", whole(1, 99_999_999), "1 .. 99999999",
           "BUCKET: file groups of a partition. Bound; of another writer's table as its keys show; `lakeindex rescale` changes it.", True, _BUCKET, "256"),
    Option("hoodie.bucket.index.hash.field", "bucket_fields", some_text, "key fields, comma-separated",
           "BUCKET: record key fields that are hashed; default all, or as stored keys show. Bound.", True, _BUCKET),
    Option("hoodie.bucket.index.partition.expressions", "bucket_rules", some_text, "`regex,count;regex,count;...`",
           "BUCKET: counts of partitions whose path matches; the first rule that matches counts. Bound.", True, _BUCKET),
    Option("lakeindex.bucket.key.rule", "bucket_key_rule", key_rule, "1.x | 0.15",
           "BUCKET: Hudi release whose way of hashing keys with `:` is followed. Bound; unset: as stored keys show, "
           "else 1.x.", True, _BUCKET),
    Option(GLOBAL_OPTION, "state_is_global", flag, FLAG,
           "STATE: a key is unique in the whole table (`true`) or in its partition. Bound.", True,
           (IndexType.STATE,), "true"),
    Option("index.state.ttl", "state_ttl_days", days, "days, 0 or more (0: for ever)",
           "STATE: keys not written for so long are forgotten, and then looked for in the files. Bound.", True,
           (IndexType.STATE,), "0.0"),
    Option("hoodie.index.hbase.table", "hbase_table", some_text, "a table of HBase",
           "HBASE: where the index is kept; it must have a family `_s`. Bound; unset: the table's own name.", True,
           (IndexType.HBASE,)),
    Option("hoodie.write.record.merge.mode", "merge_mode", one_of(MergeMode), names_of(MergeMode),
           "Which version of a record wins. Bound when the table is created; default: event time where the table "
           "has an ordering field, else commit time. A table of Hudi's that does not say needs it once.", True),
    Option("hoodie.write.complex.keygen.new.encoding", "complex_key_new_encoding", flag, FLAG,
           "Complex key generator with one key field: `true` stores the bare `value`, `false` stores `field:value`. "
           "Bound when the table is created: `create` asks for it, as Hudi 0.15 and 1.2 agree on no default; detected from the "
           "stored keys of other tables.", True),
    Option("hoodie.bloom.index.prune.by.ranges", "prune_by_ranges", flag, FLAG,
           "Drop files whose key range cannot hold a key before their filter is read."),
    Option("hoodie.bloom.index.use.treebased.filter", "treebased_filter", flag, FLAG,
           "Range pruning by interval tree (`true`) or by list (`false`); unset: by sorted slices. All three give the "
           "same answer."),
    Option("hoodie.bloom.index.update.partition.path", "bloom_moves_rows", flag, FLAG,
           "GLOBAL_BLOOM, key arrives with another partition: `true` moves the row, `false` updates it where it is."),
    Option("hoodie.simple.index.update.partition.path", "simple_moves_rows", flag, FLAG,
           "The same for GLOBAL_SIMPLE."),
    Option("hoodie.record.index.update.partition.path", "record_moves_rows", flag, FLAG,
           "The same for RECORD_INDEX."),
    Option("hoodie.hbase.index.update.partition.path", "hbase_moves_rows", flag, FLAG, "The same for HBASE."),
    Option("lakeindex.hbase.thrift.host", "hbase_host", some_text, "a host", "HBASE: host of HBase's Thrift server."),
    Option("lakeindex.hbase.thrift.port", "hbase_port", whole(1, 65_535), "1 .. 65535", "HBASE: its port."),
    Option("lakeindex.hbase.create.table", "hbase_create_table", flag, FLAG,
           "HBASE: make the table in HBase if it is not there (Hudi never does)."),
    Option("lakeindex.hbase.connect.timeout", "hbase_connect_seconds", whole(1, 3_600), "seconds, 1 .. 3600",
           "HBASE: longest wait for a connection."),
    Option("lakeindex.hbase.retry.timeout", "hbase_retry_seconds", whole(0, 86_400), "seconds, 0 .. 86400",
           "HBASE: how long a failing call is repeated, over a new connection, in the middle of a run."),
    Option("lakeindex.hbase.verify.puts", "hbase_verify_puts", flag, FLAG,
           "HBASE: read back what was put, and put again what is not there."),
    Option("hoodie.index.hbase.get.batch.size", "hbase_get_batch", whole(1, 100_000), "rows, 1 .. 100000",
           "HBASE: rows of one get (Hudi: 100)."),
    Option("hoodie.index.hbase.put.batch.size", "hbase_put_batch", whole(1, 100_000), "rows, 1 .. 100000",
           "HBASE: rows of one put (Hudi: 100)."),
    Option("hoodie.index.hbase.max.qps.per.region.server", "hbase_max_qps", whole(0, 100_000_000),
           "rows a second, 0 or more (0: no bound)",
           "HBASE: times `qps.fraction`, the most rows a second that one process reads or writes (Hudi: 1000)."),
    Option("hoodie.index.hbase.qps.fraction", "hbase_qps_fraction", share, "above 0, up to 1",
           "HBASE: the part of `max.qps.per.region.server` that is for this process."),
    Option("hoodie.index.hbase.rollback.sync", "hbase_rollback_sync", flag, FLAG,
           "HBASE: remove the rows that a failed commit put (Hudi: false; they do not count in either case)."),
    Option("lakeindex.footer.cache", "footer_cache", flag, FLAG,
           "Keep key ranges, row counts and filters of base files in side files of the table."),
    Option("hoodie.bloom.index.use.metadata", "filters_from_cache_only", flag, FLAG,
           "BLOOM, GLOBAL_BLOOM: look up from the footer cache alone, which is completed first (`footers_read` in the "
           "summary says by how many files) and must be writable. There is no metadata table."),
    Option("hoodie.bloom.index.filter.type", "filter_type", one_of(FilterType), names_of(FilterType),
           "Filter type written to footers."),
    Option("lakeindex.bloom.sizing", "filter_sizing", one_of(FilterSizing), names_of(FilterSizing),
           "`exact` sizes each filter for 1.25 x the rows of its file; `fixed` is Hudi's sizing by num_entries."),
    Option("hoodie.index.bloom.num_entries", "filter_entries", whole(1, 2**31 - 1), "1 .. 2147483647",
           "Entries of a filter row with `fixed` sizing."),
    Option("hoodie.index.bloom.fpp", "filter_fpp", probability, "between 0 and 1, exclusive",
           "False-positive probability of a filter; default 1e-6 with `exact` sizing, 1e-9 with `fixed`."),
    Option("hoodie.bloom.index.filter.dynamic.max.entries", "filter_max_entries", whole(1, 2**31 - 1),
           "1 .. 2147483647", "Bound of a DYNAMIC_V0 filter's growth with `fixed` sizing, in entries."),
    Option("hoodie.parquet.max.file.size", "max_file_bytes", whole(1), "bytes, 1 or more",
           "Target size of a base file; new rows roll over to another file group beyond it."),
    Option("hoodie.parquet.small.file.limit", "small_file_bytes", whole(0), "bytes, 0 or more (0: never fill)",
           "Base files smaller than this are filled with new rows first."),
    Option("hoodie.copyonwrite.record.size.estimate", "record_bytes_estimate", whole(1), "bytes, 1 or more",
           "Size of a record on disk; unset: estimated by encoding a sample of the batch."),
    Option("hoodie.parquet.compression.codec", "codec", one_of(Codec), names_of(Codec), "Compression of base files."),
    Option("lakeindex.parquet.row.group.rows", "row_group_rows", whole(1, 2**31 - 1), "rows, 1 or more",
           "Rows of a row group in a base file; rows are sorted by key within one."),
    Option("lakeindex.chunk.rows", "chunk_rows", whole(1, 2**31 - 1), "rows, 1 or more",
           "Most rows of one chunk (a row group of the staged batch), the unit of look-up work."),
    Option("lakeindex.staged.codec", "staged_codec", one_of(StagedCodec), names_of(StagedCodec),
           "Compression of the staged batch; `auto`: none if the run folder is on a local disk, elsewhere zstd."),
    Option("lakeindex.input.format", "input_format", one_of(InputFormat), names_of(InputFormat),
           "Format of the input files; `auto` goes by the suffix (.parquet, .csv, .csv.gz, .json, .jsonl, .ndjson)."),
    Option("lakeindex.metadata.table", "metadata_table", one_of(MetadataTablePolicy), names_of(MetadataTablePolicy),
           "A table with a metadata table is refused, or its metadata table is dropped before the first data file."),
    Option("lakeindex.pending.foreign.max.age", "pending_foreign_max_age_seconds", whole(0), "seconds, 0 or more",
           "Age from which another writer's unfinished instant counts as dead and is rolled back."),
    Option("lakeindex.lock.lease", "lock_lease_seconds", whole(2, 86_400), "seconds, 2 .. 86400",
           "Lease of the table's lock and of a run; a holder that does not renew it in time is taken over."),
    Option("lakeindex.lock.wait", "lock_wait_seconds", whole(0, 86_400), "seconds, 0 .. 86400",
           "How long to wait for the table's lock before giving up with exit code 5."),
    Option("lakeindex.clock.max.skew", "clock_max_skew_seconds", whole(0, 86_400), "seconds, 0 .. 86400; 0: any",
           "How far this machine's clock may be from the store's; with 0 a time zone that does not fit is let pass, too."),
    Option("lakeindex.conflict.retries", "conflict_retries", whole(0, 100), "0 .. 100",
           "How often a run looks up and plans anew because another writer changed the same file groups."),
    Option("lakeindex.parallelism", "parallelism", whole(0, 10_000), "tasks at once, 0 .. 10000",
           "Tasks that run at once; 0: one per core (local) or Spark's default parallelism."),
    Option(MEMORY_OPTION, "memory", memory, "bytes, or a number with k, m or g; 64m or more",
           "Memory that the tasks of one process hold together; a batch that needs more is spilled into the run folder. "
           "Default: half of the machine's (or the cgroup's), 512m at least. On Spark, of all tasks that run at once."),
    Option("lakeindex.spark.driver.bytes", "driver_bytes", whole(0), "bytes, 0 or more",
           "Spark runner: a step that reads at most this much runs on the driver's cores, without a job; four times as much in a spark-submit job that has no executors yet (one of such steps only starts none); 0: none."),
    Option("lakeindex.state.folder", "state_folder", some_text, "a path or URL Spark can write to",
           "STATE: where a new state is kept; default: in the table, if that lies on a local file system."),
    Option("lakeindex.state.partitions", "state_partitions", whole(1, 10_000), "1 .. 10000",
           "STATE: partitions of a new state; a state keeps those it was made with."),
    Option("hoodie.metadata.compact.max.delta.commits", "index_max_deltas", whole(1, 10_000), "deltas, 1 .. 10000",
           "Stored index: deltas after which they are folded into what was built."),
    Option("hoodie.metadata.record.index.min.filegroup.count", "record_min_shards", whole(1, 100_000), "1 .. 100000",
           "RECORD: least number of shards; with an equal maximum, the number."),
    Option("hoodie.metadata.record.index.max.filegroup.count", "record_max_shards", whole(1, 100_000), "1 .. 100000",
           "RECORD: greatest number of shards."),
    Option("hoodie.metadata.record.index.max.filegroup.size", "record_shard_bytes", whole(48), "bytes, 48 or more",
           "RECORD: size of a shard, at 48 bytes a key, that a build and a compaction aim at."),
    Option("hoodie.metadata.record.index.growth.factor", "record_growth", growth, "1 or more",
           "RECORD: growth of the table that shards are made for."),
    Option("hoodie.metadata.global.record.level.index.min.filegroup.count", "record_min_shards", whole(1, 100_000),
           "1 .. 100000", "The same as of Hudi 1.1."),
    Option("hoodie.metadata.global.record.level.index.max.filegroup.count", "record_max_shards", whole(1, 100_000),
           "1 .. 100000", "The same as of Hudi 1.1."),
    Option("lakeindex.checkpoint.keep.runs", "keep_runs", whole(0, 1_000_000), "runs, 0 or more",
           "Finished runs whose checkpoints and quarantine files are kept beside the table."),
    Option("lakeindex.checkpoint.keep.dead.days", "keep_dead_runs_days", days, "days, 0 or more",
           "`maintain`: age from which the folder of a run that never finished is deleted, quarantine files included."),
    Option("hoodie.cleaner.commits.retained", "cleaner_commits", whole(1), "commits, 1 or more",
           "`clean`: commits whose base files stay readable."),
    Option("hoodie.keep.min.commits", "archive_commits", whole(1), "commits, 1 or more",
           "`archive`: commits that stay on the timeline; not fewer than cleaning keeps."),
    Option("lakeindex.report", "report", one_of(ReportFormat), "html, json or none",
           "What a run leaves of its report in its folder: report.json, and report.html beside it. Default: json in Python, else html."),
    Option("lakeindex.metrics.textfile", "metrics_textfile", some_text, "a local file NAME.prom, or a local folder",
           "Write the run's metrics there for Prometheus's textfile collector; in a folder, a file a table. Extra `metrics`."),
    Option("lakeindex.openlineage", "openlineage", flag, FLAG,
           "Emit OpenLineage events of the run, to where OpenLineage's own settings say. Extra `lineage`."),
)

CREATE_OPTIONS: Final[tuple[Option, ...]] = (
    *(option for option in OPTIONS if option.bound_at_creation),
    Option("hoodie.table.keygenerator.type", "key_generator", one_of(KeyGeneratorType), names_of(KeyGeneratorType),
           "Key generator; default NON_PARTITION without partition fields, SIMPLE with one key and one partition "
           "field, else COMPLEX. CUSTOM takes partition fields as `field:SIMPLE` or `field:TIMESTAMP`."),
    Option("hoodie.table.keygenerator.class", "key_generator", generator_class, " | ".join(KEY_GENERATOR_CLASSES),
           "The same by its Java class."),
    Option("hoodie.datasource.write.hive_style_partitioning", "hive_style", flag, FLAG,
           "Partition folders are named `field=value`."),
    Option("hoodie.datasource.write.partitionpath.urlencode", "url_encode", flag, FLAG,
           "Partition values are escaped, so that a `/` in a value makes no deeper folder."),
    Option("hoodie.database.name", "database", some_text, "a name", "Database the table belongs to."),
    Option(TIMEBASED_PREFIX + "timestamp.type", _TIMEBASED, choice_of(*TIMESTAMP_TYPES), " | ".join(TIMESTAMP_TYPES),
           "What the partition field of a TIMESTAMP key generator holds."),
    Option(TIMEBASED_PREFIX + "timestamp.scalar.time.unit", _TIMEBASED, choice_of(*TIME_UNITS), " | ".join(TIME_UNITS),
           "Unit of a SCALAR timestamp since the epoch."),
    Option(TIMEBASED_PREFIX + "input.dateformat", _TIMEBASED, some_text, "Java date patterns",
           "Patterns of a DATE_STRING or MIXED timestamp, the first that fits counts."),
    Option(TIMEBASED_PREFIX + "input.dateformat.list.delimiter.regex", _TIMEBASED, some_text, "a regular expression",
           "What stands between several input patterns; `,` if it is not given."),
    Option(TIMEBASED_PREFIX + "input.timezone", _TIMEBASED, some_text, "a time zone", "Zone of texts that name none."),
    Option(TIMEBASED_PREFIX + "output.dateformat", _TIMEBASED, some_text, "a Java date pattern",
           "Pattern of the partition path, for example `yyyy/MM/dd`."),
    Option(TIMEBASED_PREFIX + "output.timezone", _TIMEBASED, some_text, "a time zone", "Zone of the partition path."),
    Option(TIMEBASED_PREFIX + "timezone", _TIMEBASED, some_text, "a time zone", "Zone of both, where they are the same."),
)
# fmt: on

BY_KEY: Final[dict[str, Option]] = {option.key: option for option in OPTIONS}
CREATE_BY_KEY: Final[dict[str, Option]] = {option.key: option for option in CREATE_OPTIONS}


def parse_options(pairs: Options | Iterable[tuple[str, Any]]) -> WriteConfig:
    """Typed configuration of a write from option names and texts.

    Raises:
        OptionError: an unknown name (the message names near ones) or a value that is not valid (it says what is).
    """
    given = option_texts(pairs)
    notes = tuple(_note(key, given.pop(key)) for key in sorted(given.keys() & NOTED_OPTIONS.keys()))
    config = WriteConfig(**{option.field: value for option, value in _parse_pairs(given, BY_KEY)}, notes=notes)
    if config.filters_from_cache_only and not config.footer_cache:
        raise OptionError(
            "option hoodie.bloom.index.use.metadata=true asks for the footer cache, lakeindex.footer.cache=false puts it off",
            culprit="hoodie.bloom.index.use.metadata",
            hint="leave one of the two out",
        )
    return config


Options: TypeAlias = Mapping[str, str | bool | int | float]
"""Option names and values, as Python's callers give them."""


def option_texts(pairs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Options as texts: from Python they may be bools and numbers, too.

    Raises:
        OptionError: a name that is no text, or a value that is neither text, bool nor number.
    """
    texts: dict[str, str] = {}
    for key, value in dict(pairs).items():
        if not isinstance(key, str):
            raise OptionError(f"an option cannot be named {key!r}", culprit=repr(key), hint="names are texts")
        if isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, (str, int, float)):
            texts[key] = str(value)
        else:
            hint = f"valid: {BY_KEY[key].valid}" if key in BY_KEY else "give a text, a bool or a number"
            raise OptionError(f"option {key} cannot be {value!r}", culprit=key, hint=hint)
    return texts


def _note(key: str, text: str) -> str:
    only = NOTED_VALUES.get(key)
    if only is not None and text.strip().upper() != only:
        raise OptionError(f"option {key} cannot be {text!r}", culprit=key, hint=f"valid: {only}; {NOTED_OPTIONS[key]}")
    return f"{key} changes nothing: {NOTED_OPTIONS[key]}"


def index_spec(index_type: IndexType, config: WriteConfig | CreateConfig) -> IndexSpec:
    """The index type with the options that are bound with it: as given, else their defaults.

    Raises:
        OptionError: an option is given that has no meaning with this index type.
    """
    bound: list[tuple[str, str]] = []
    for option in OPTIONS:
        if not option.bound_with:
            continue
        value = getattr(config, option.field)
        if index_type in option.bound_with:
            bound.append((option.key, option.bound_default if value is None else _as_text(value)))
        elif value is not None:
            raise OptionError(
                f"option {option.key} has no meaning with index type {index_type}",
                culprit=option.key,
                hint=f"it belongs to {', '.join(option.bound_with)}",
            )
    return IndexSpec(index_type, tuple(sorted(bound)))


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_create_options(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> CreateConfig:
    """Typed configuration of a new table from option names and texts.

    Raises:
        OptionError: an unknown name, a value that is not valid, or two names of one thing with different values.
    """
    values: dict[str, Any] = {}
    timebased: dict[str, str] = {}
    for option, value in _parse_pairs(pairs, CREATE_BY_KEY):
        if option.field == _TIMEBASED:
            timebased[option.key.removeprefix(TIMEBASED_PREFIX)] = value
        elif values.setdefault(option.field, value) != value:
            raise OptionError(
                f"option {option.key} says {value}, another option says {values[option.field]}",
                culprit=option.key,
                hint="give one of the two",
            )
    return CreateConfig(**values, timebased=timebased)


def _parse_pairs(
    pairs: Mapping[str, str] | Iterable[tuple[str, str]], options: Mapping[str, Option]
) -> Iterator[tuple[Option, Any]]:
    for key, text in option_texts(pairs).items():
        option = options.get(key)
        if option is None:
            raise _unknown(key, options)
        try:
            yield option, option.parse(text)
        except ValueError:
            raise OptionError(f"option {key} cannot be {text!r}", culprit=key, hint=f"valid: {option.valid}") from None


def _unknown(key: str, options: Mapping[str, Option]) -> OptionError:
    if key in REFUSED_OPTIONS:
        return OptionError(f"option {key} is refused", culprit=key, hint=REFUSED_OPTIONS[key])
    if key in CREATE_BY_KEY:
        hint = "it is given when the table is created (`lakeindex create -o ...`) and is part of the table then"
    elif key in BY_KEY:
        hint = "it belongs to a write (`lakeindex upsert -o ...`), not to the table"
    else:
        near = difflib.get_close_matches(key, list(options), n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"valid options: {', '.join(sorted(options))}"
    return OptionError(f"unknown option {key!r}", culprit=key, hint=hint)


def options_table(options: Iterable[Option] = OPTIONS) -> str:
    """Options as a Markdown table, as they stand in the README: those of a write, or ``CREATE_OPTIONS``."""
    lines = ["| option | valid | default | meaning |", "|---|---|---|---|"]
    for option in options:
        default = _default_text(option.default)
        lines.append(f"| `{option.key}` | {option.valid.replace('|', '/')} | {default} | {option.text} |")
    return "\n".join(lines)


def _default_text(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return default if isinstance(default, str) else str(default) if isinstance(default, (int, float)) else ""
