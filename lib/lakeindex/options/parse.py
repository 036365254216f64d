"""Options, parsed once at the edge: inside the library only the frozen ``WriteConfig`` and ``CreateConfig`` travel.

Options of Hudi that are not ours either change nothing here, which is noted, or are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from lakeindex.errors import OptionError
from lakeindex.model import IndexSpec, IndexType
from lakeindex.options.option import NULL_FOR_MISSING_OPTION, PARTIAL_OPTION, TIMEBASED_PREFIX, Option
from lakeindex.options.option_table import (
    BY_KEY,
    CREATE_BY_KEY,
    KEY_OPTIONS,
    KIND_AREAS,
    OPTIONS,
    check_locks,
)
from lakeindex.options.types import Config, CreateConfig, PartialUpdate, WriteConfig

_TASKS_BY_COST: Final = (
    "work is divided into tasks by its estimated cost; lakeindex.parallelism limits the tasks that run at once"
)
_THROUGH_THRIFT: Final = (
    "HBase is reached through its Thrift server: lakeindex.hbase.thrift.host and .port say where it is"
)
_CONSISTENT_HASHING: Final = "it belongs to consistent hashing, which Hudi refuses on copy-on-write tables"
_THRIFT_LOGS_IN: Final = "HBase's Thrift server does the log-in to a secured HBase; set it up there"

_BUILT_ON_REQUEST: Final = (
    "every commit keeps it up where the metadata table has it; "
    "`lakeindex metadata build TABLE --partition {0}` builds it"
)
_LOCK_WAIT: Final = "lakeindex.lock.wait limits how long a run waits for a lock"
_LAZY: Final = "what dead writers leave is recovered at every write; Hudi's writers beside lakeindex need LAZY"

NOTED_OPTIONS: Final[dict[str, str]] = {
    "hoodie.write.lock.client.num_retries": _LOCK_WAIT,
    "hoodie.write.lock.client.wait_time_ms_between_retry": _LOCK_WAIT,
    "hoodie.write.lock.num_retries": _LOCK_WAIT,
    "hoodie.write.lock.wait_time_ms": _LOCK_WAIT,
    "hoodie.write.lock.wait_time_ms_between_retry": _LOCK_WAIT,
    "hoodie.write.lock.max_wait_time_ms_between_retry": _LOCK_WAIT,
    "hoodie.clean.failed.writes.policy": _LAZY,
    "hoodie.cleaner.policy.failed.writes": _LAZY,
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
    "hoodie.datasource.hive_sync.mode": "the metastore itself is told",
    "hoodie.datasource.hive_sync.use_jdbc": "the metastore itself is told",
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
    "hoodie.metadata.index.bloom.filter.enable": _BUILT_ON_REQUEST.format("bloom_filters"),
    "hoodie.metadata.index.column.stats.enable": _BUILT_ON_REQUEST.format("column_stats"),
    "hoodie.metadata.record.index.enable": _BUILT_ON_REQUEST.format("record_index"),
    "hoodie.metadata.global.record.level.index.enable": _BUILT_ON_REQUEST.format("record_index"),
    "hoodie.metadata.record.level.index.enable": (
        "every commit keeps it up where the metadata table has it; on a table of version 8 or later with "
        "hoodie.index.type=RECORD_LEVEL_INDEX `lakeindex metadata build TABLE --partition record_index` builds it"
    ),
    "hoodie.datasource.hive_sync.enable": "lakeindex.sync=hive names the catalog (docs/catalogs.md)",
    "hoodie.datasource.meta.sync.enable": "lakeindex.sync=glue or hive names the catalogs (docs/catalogs.md)",
    "hoodie.datasource.hive_sync.jdbcurl": "the metastore itself is told: hoodie.datasource.hive_sync.metastore.uris",
    "hoodie.merge.allow.duplicate.on.inserts": "an upsert never stores a key twice",
}
"""Options of Hudi that ask for something lakeindex does not do, and what to do instead."""

NOTED_VALUES: Final[dict[str, str]] = {
    "hoodie.datasource.hive_sync.mode": "HMS",
    "hoodie.datasource.hive_sync.use_jdbc": "FALSE",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.partition.rule.type": "REGEX",
    "hoodie.combine.before.upsert": "TRUE",
    "hoodie.combine.before.delete": "TRUE",
}
"""Noted options that accept only one value."""

_C = TypeVar("_C", bound=Config)


def parse_options(pairs: Options | Iterable[tuple[str, Any]]) -> WriteConfig:
    """Typed configuration of a write from option names and texts.

    Raises:
        OptionError: an unknown name (the message names near ones) or a value that is not valid (it says what is).
    """
    given = option_texts(pairs)
    notes = tuple(_note(key, given.pop(key)) for key in sorted(given.keys() & NOTED_OPTIONS.keys()))
    config = _having(WriteConfig(notes=notes), _parse_pairs(given, BY_KEY))
    for area in dict.fromkeys(KIND_AREAS.values()):
        if area.check is not None:
            area.check(config)
    check_locks(config)
    _check_missing(config)
    if config.csv_quote == config.csv_delimiter:
        raise OptionError(
            f"option lakeindex.csv.quote cannot be {config.csv_quote!r}, which is the delimiter",
            culprit="lakeindex.csv.quote",
            hint="give another one, or none",
        )
    return config


def _check_missing(config: WriteConfig) -> None:
    """Columns that a batch lacks cannot be kept and be null. Raises: OptionError."""
    if config.null_for_missing and config.partial_update is not PartialUpdate.OFF:
        raise OptionError(
            f"option {PARTIAL_OPTION} cannot be {str(config.partial_update)!r} with {NULL_FOR_MISSING_OPTION}=true: "
            "the one keeps the columns that a batch lacks, the other makes them null",
            culprit=PARTIAL_OPTION,
            hint="give one of the two",
        )


def _having(config: _C, values: Iterable[tuple[Option, Any]]) -> _C:
    for option, value in values:
        known = {**dict(config.key_options), option.key: _as_text(value)} if option.field == KEY_OPTIONS else None
        config = config.having(option.area, option.field, value if known is None else tuple(sorted(known.items())))
    return config


Options: TypeAlias = Mapping[str, str | bool | int | float | os.PathLike[str]]
"""Option names and values, as Python's callers give them; paths where an option is one."""


def is_same_value(key: str, one: str, other: str) -> bool:
    """Whether two texts of an option mean the same; a text that is not valid means only itself."""
    option = BY_KEY.get(key)
    if option is None or one == other:
        return one == other
    try:
        return bool(option.parse(one) == option.parse(other))
    except ValueError:
        return False


def option_texts(pairs: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Options as texts: from Python they may be bools, numbers and paths, too.

    Raises:
        OptionError: what has no names, a name that is no text, or a value that is neither text, bool, number nor path.
    """
    texts: dict[str, str] = {}
    try:
        given = dict(pairs)
    except (TypeError, ValueError):
        hint = "give a dict: options={'lakeindex.parallelism': 2}"
        raise OptionError(f"options cannot be {pairs!r}", culprit="options", hint=hint) from None
    for key, value in given.items():
        if not isinstance(key, str):
            raise OptionError(f"an option cannot be named {key!r}", culprit=repr(key), hint="names must be texts")
        if isinstance(value, bool):
            texts[key] = str(value).lower()
        elif isinstance(value, (str, int, float, os.PathLike)):
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


def index_spec(index_type: IndexType, config: Config) -> IndexSpec:
    """The index type with the options that are bound with it: as given, else their defaults.

    Raises:
        OptionError: an option is given that has no meaning with this index type.
    """
    bound: list[tuple[str, str]] = []
    for option in OPTIONS:
        if not option.bound_with:
            continue
        value = config.given(option.area, option.field)
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
    values: dict[tuple[type | None, str], tuple[Option, Any]] = {}
    timebased: dict[str, str] = {}
    for option, value in _parse_pairs(pairs, CREATE_BY_KEY):
        if option.key.startswith(TIMEBASED_PREFIX):
            timebased[option.key.removeprefix(TIMEBASED_PREFIX)] = value
            continue
        setting = option.key if option.field == KEY_OPTIONS else option.field
        _, other = values.setdefault((option.area, setting), (option, value))
        if other != value:
            raise OptionError(
                f"option {option.key} says {value}, another option for the same setting says {other}",
                culprit=option.key,
                hint="give one of the two",
            )
    return _having(CreateConfig(timebased=timebased), values.values())


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
        import difflib

        near = difflib.get_close_matches(key, list(options), n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(near)}?" if near else f"valid options: {', '.join(sorted(options))}"
    return OptionError(f"unknown option {key!r}", culprit=key, hint=hint)
