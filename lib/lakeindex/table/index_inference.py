"""Another writer's table at our first write to it: which index do its files show, and what has to be asked?

Hudi keeps the index type in job options. One rule for all types: what the files show is taken,
what contradicts them is refused, what they cannot show and would make another table is asked for.

* **Buckets** show in the file ids, which begin with a number; count and hash fields in the stored keys. A new file
  group of any other index would be lost to the table's bucket writers, so no other type is taken.
* **Consistent hashing** shows in its own metadata, and is refused.
* **A record index** (Hudi's metadata table) may mean keys that are unique in the whole table,
  or only in their partition, or may serve readers alone: asked for. So is the type of a table that has no file yet.
* **Filters** in the footers serve BLOOM; a table without them is looked up by SIMPLE. Both give the same rows.

Nothing in the files tells whether keys are unique in the whole table (the global types, HBASE) or in their partition,
which is Hudi's own default and what is taken: whoever wants the other says so with the first write.

Of a bucket table Hudi keeps neither the count nor the fields nor whose rule for them it was, but the stored keys show
it: a key with the hash ``h`` lies in bucket ``b`` of ``n`` only if ``n`` divides ``h - b``. So the count divides the
greatest common divisor of these differences, and is above the greatest bucket. What a caller says is compared with the
keys; what the keys leave open is asked for, and never assumed. Where partitions have counts of their own, Hudi 1.1 and
later note the rules in a folder of the table, and its writers follow them, whatever their options say.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import OptionError, TableCorruptError, TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_footer
from lakeindex.files.key_columns import read_record_keys
from lakeindex.frozen import Frozen
from lakeindex.index.bucket import bucket_ids, bucket_of, groups_by_bucket, hash_distances, key_rule_of
from lakeindex.index.bucket_options import (
    COUNT_OPTION,
    FIELDS_OPTION,
    KEY_RULE_OPTION,
    MAX_BUCKETS,
    RULES_OPTION,
    BucketLayout,
    BucketOptions,
    KeyRule,
    format_rules,
    layout_of,
    parse_rules,
    spec_of,
)
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.options.option import INDEX_OPTION
from lakeindex.options.option_table import BY_KEY
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.storage import list_names
from lakeindex.table.binding import new_index
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.virtual_keys import VirtualKeys

_HASHING_METADATA: Final = ".hoodie/.bucket_index/consistent_hashing_metadata"
_NOTED_BUCKETS: Final = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
_NOTED_SUFFIX: Final = ".hashing_config"
_RECORD_INDEX: Final = "record_index"
_LIKELY_BUCKETS: Final = 100_000
_TELLING_GROUPS: Final = 4
"""One random file id in 44 begins with eight digits; so many never do together."""

_SAMPLED_FILES: Final = 12
_MOST_FILES: Final = 200
_TELLING: Final = 32
"""So many distances (h - b), if they are independent, are multiples of more than the real count with a
chance of 2 ** -32 at most.

Keys do not count: the same few in every partition, a hashed field of few values, or numbers in sequence,
whose hashes lie in one row, have few distances however many rows there are.
"""
_NAMED: Final = 6
_MOST_FIELDS: Final = 6


def index_of_stored(table: Table, snapshot: Snapshot, config: WriteConfig) -> IndexSpec | None:
    """The index that a table of another writer's is bound to.

    Args:
        config: options of its first write by us.

    Returns:
        The index with its bound options; None if the table is bound.

    Raises:
        OptionError: the options contradict the files, or the files do not tell and the options do not say.
        TableUnsupportedError: the table has consistent-hashing buckets.
        TableCorruptError: the table's file groups are not a bucket index's, or its keys were placed by two rules.
    """
    if table.binding is not None:
        return None
    config = _with_properties(table, config)
    _refuse_consistent_hashing(table)
    noted = noted_buckets(table, snapshot.timeline)
    if noted is not None:
        config = _laid_under(config, {INDEX_OPTION: IndexType.BUCKET, **noted.options}, f"{noted.path} says")
    files = snapshot.base_files_all()
    asked = config.index_type
    if are_buckets(files):
        if asked not in (None, IndexType.BUCKET):
            raise _no_buckets(table, files[0], asked)
        return buckets_of_stored(table, snapshot, config)
    if asked is IndexType.BUCKET:
        return buckets_of_stored(table, snapshot, config)
    return new_index(asked or _type_shown(table, files), config, table.properties.key_fields)


def are_buckets(files: Sequence[BaseFile]) -> bool:
    """Whether file groups are a bucket index's by their ids."""
    numbers = [bucket_of(file.file_id) for file in files]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        return False
    return max(known) < _LIKELY_BUCKETS or len(known) >= _TELLING_GROUPS


def _with_properties(table: Table, config: WriteConfig) -> WriteConfig:
    """The options, with what ``hoodie.properties`` says of the index laid under them (neither Hudi
    release writes it there).
    """
    entries = table.properties.entries
    stated = {
        key: entries[key]
        for key, option in BY_KEY.items()
        if key == INDEX_OPTION or option.bound_with
        if entries.get(key)
    }
    return _laid_under(config, stated, "the table's properties say") if stated else config


def _laid_under(config: WriteConfig, stated: Mapping[str, str], told: str) -> WriteConfig:
    """The options, with what is stated of the index laid under them. Raises: OptionError: they say something else."""
    parsed = parse_options(stated)
    for key in stated:
        area, field = BY_KEY[key].area, BY_KEY[key].field
        asked, said = config.given(area, field), parsed.given(area, field)
        if asked not in (None, said):
            raise OptionError(
                f"option {key} cannot be {asked}: {told} {said}", culprit=key, hint="leave the option out"
            )
        config = config.having(area, field, said)
    return config


class NotedBuckets(Frozen):
    """Counts of buckets by partition that Hudi's writers follow.

    Attributes:
        path: the file that says them.
        options: as options.
    """

    path: str
    options: Mapping[str, str]


def noted_buckets(table: Table, timeline: Timeline) -> NotedBuckets | None:
    """The newest counts by partition that Hudi has noted in a table; None if there are none.

    Source: ``PartitionBucketIndexHashingConfig`` of Hudi 1.1 and 1.2: those of a pending rescaling do not count.

    Raises:
        TableCorruptError: they cannot be read.
        TableUnsupportedError: their rules are no regular expressions.
        OptionError: an expression that Java and Python read differently.
    """
    pending = {f"{one.time}{_NOTED_SUFFIX}" for one in timeline.pending_writes}
    names = [name for name in list_names(table.storage, _NOTED_BUCKETS) if name.endswith(_NOTED_SUFFIX)]
    newest = max((name for name in names if name not in pending), default=None)
    if newest is None:
        return None
    path = f"{_NOTED_BUCKETS}/{newest}"
    try:
        said = json.loads(table.storage.read(path))
        rule, count, expressions = str(said["rule"]), int(said["defaultBucketNumber"]), str(said["expressions"])
    except (ValueError, KeyError, TypeError) as error:
        raise TableCorruptError(
            f"{path} is damaged: {error!r}", culprit=path, hint="restore it: Hudi's writers follow it"
        ) from None
    if rule.lower() != "regex":
        raise TableUnsupportedError(
            f"{path} has rules of the type {rule!r} for the buckets of partitions",
            culprit=path,
            hint="only regular expressions are followed; write to the table with Hudi",
        )
    return NotedBuckets(path, {COUNT_OPTION: str(count), RULES_OPTION: format_rules(parse_rules(expressions))})


def check_noted_buckets(table: Table, timeline: Timeline, layout: BucketLayout) -> None:
    """Refuse to place keys otherwise than Hudi's writers do by what they have noted in the table.

    Raises:
        TableUnsupportedError: these counts are others. Also as :func:`noted_buckets`.
    """
    noted = noted_buckets(table, timeline)
    ours = layout.options()
    odd = [] if noted is None else [key for key, text in noted.options.items() if ours[key] != text]
    if noted is not None and odd:
        raise TableUnsupportedError(
            f"table {table.name} would have {odd[0]}={ours[odd[0]] or 'nothing'}, and {noted.path}, which Hudi's "
            f"writers follow, says {noted.options[odd[0]] or 'nothing'}: each would store keys anew that the other has",
            culprit=noted.path,
            hint="change buckets of such a table with Hudi's procedure partition_bucket_index_manager alone, and then "
            "let `lakeindex rescale TABLE`, without counts, bind what it has noted",
        )


def _refuse_consistent_hashing(table: Table) -> None:
    found = next(iter(table.storage.list(_HASHING_METADATA)), None)
    if found is not None:
        raise TableUnsupportedError(
            f"table {table.name} has buckets of consistent hashing (hoodie.index.bucket.engine=CONSISTENT_HASHING)",
            culprit=found.path,
            hint="only buckets of one count are written, as by Hudi on copy-on-write tables; "
            "write to it with Hudi, or copy its rows into a new table",
        )


def _no_buckets(table: Table, file: BaseFile, asked: object) -> OptionError:
    return OptionError(
        f"option {INDEX_OPTION} cannot be {asked}: the file groups of table {table.name} are buckets ({file.path})",
        culprit=INDEX_OPTION,
        hint=f"leave the option out: the table is then written as {IndexType.BUCKET}, as its other writers do; "
        f"`lakeindex index migrate TABLE --to {asked}` changes the index for good",
    )


def _type_shown(table: Table, files: Sequence[BaseFile]) -> IndexType:
    properties = table.properties
    metadata = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
    if _RECORD_INDEX in metadata:
        raise _ask(
            f"table {table.name} has Hudi's record index, which does not say in what keys are unique",
            f"{IndexType.RECORD_INDEX} or {IndexType.GLOBAL_BLOOM} (a key once in the table), "
            f"or {IndexType.BLOOM} (once in its partition)",
        )
    if not files:
        raise _ask(
            f"table {table.name} was made by another writer and has no file yet that would show its index",
            ", ".join(IndexType),
        )
    spread = (files[0], files[len(files) // 2], files[-1])
    has_filters = any(read_footer(table.storage, file).filter_text is not None for file in spread)
    return IndexType.BLOOM if has_filters else IndexType.SIMPLE


def _ask(what: str, choices: str) -> OptionError:
    return OptionError(
        what, culprit=INDEX_OPTION, hint=f"say it once, as its other writers do: -o {INDEX_OPTION}=TYPE with {choices}"
    )


class _Sampled(Frozen):
    """The keys of one file group."""

    file: BaseFile
    bucket: int
    keys: pa.Array


class _Fit(Frozen):
    """Hash fields that agree with every sampled key, the counts that do, ascending,
    and whether the greatest is the real one.
    """

    fields: tuple[str, ...]
    counts: tuple[int, ...]
    is_sure: bool

    @property
    def likely(self) -> tuple[int, ...]:
        """The counts that may be the real one."""
        return self.counts[-1:] if self.is_sure else self.counts


def buckets_of_stored(table: Table, snapshot: Snapshot, config: WriteConfig) -> IndexSpec:
    """The bucket index that another writer's table has.

    Args:
        config: options of its first write by us; those of a bucket index are compared with the stored keys.

    Raises:
        OptionError: the options cannot be those the table was written with, or the keys do not tell what is not given.
        TableCorruptError: the table's file groups are not a bucket index's, or its keys were placed by both rules.
    """
    told = layout_of(new_index(IndexType.BUCKET, config, table.properties.key_fields))
    samples = list(_sample(table, snapshot.base_files_all()))
    given = config.of(BucketOptions)
    counted = given.count is not None or given.rules is not None
    for partition in snapshot.partitions():
        layout = told if counted else replace(told, count=MAX_BUCKETS)
        groups_by_bucket(partition, (file.file_id for file in snapshot.base_files(partition)), layout)
    choices = [told.fields] if given.fields is not None else list(_field_choices(table.properties.key_fields))
    layout = _counted(table, samples, told, choices) if counted else _inferred(table, snapshot, samples, told, choices)
    rule = _stored_rule(samples, layout)
    if rule is None:
        return spec_of(layout)
    if given.key_rule is not None and given.key_rule != rule.value:
        raise OptionError(
            f"option {KEY_RULE_OPTION} cannot be {given.key_rule}: stored keys were placed as Hudi {rule} does",
            culprit=KEY_RULE_OPTION,
            hint="leave the option out",
        )
    return spec_of(replace(layout, key_rule=rule))


def _sample(table: Table, files: Sequence[BaseFile]) -> Iterator[_Sampled]:
    """Keys of some file groups from all over the table: of more if these hold few keys."""
    step = max(1, -(-len(files) // _SAMPLED_FILES))
    stores_keys, entries = table.properties.populate_meta_fields, table.key_properties()
    virtual = None if stores_keys else VirtualKeys(KeySpec.from_properties(entries))
    spread = [*files[::step], *(file for number, file in enumerate(files) if number % step)]
    seen = 0
    for number, file in enumerate(spread[:_MOST_FILES]):
        if number >= _SAMPLED_FILES and seen >= _TELLING:
            return
        keys = read_record_keys(table.storage, file, virtual)
        seen += len(keys)
        yield _Sampled(file, bucket_of(file.file_id) or 0, keys)


def _counted(
    table: Table, samples: Sequence[_Sampled], told: BucketLayout, choices: Sequence[tuple[str, ...]]
) -> BucketLayout:
    """The layout with the hash fields that fit its counts; as it is told if those do, or none."""
    fitting = [fields for fields in choices if _places_all(samples, replace(told, fields=fields))]
    if told.fields in fitting or not fitting:
        return told
    if len(fitting) > 1:
        raise _open_fields(table, fitting)
    return replace(told, fields=fitting[0])


def _places_all(samples: Sequence[_Sampled], layout: BucketLayout) -> bool:
    """Whether every sampled key is in its bucket by one of the key rules."""
    return any(
        all(
            bool((bucket_ids(one.keys, layout.count_of(one.file.partition_path), by_rule) == one.bucket).all())
            for one in samples
        )
        for by_rule in (replace(layout, key_rule=rule) for rule in KeyRule)
    )


def _open_fields(table: Table, fitting: Iterable[tuple[str, ...]]) -> OptionError:
    return OptionError(
        f"table {table.name} is a bucket table, and its stored keys do not tell which key fields are hashed",
        culprit=FIELDS_OPTION,
        hint=f"say it once, as its other writers do: -o {FIELDS_OPTION}=...; "
        f"{' or '.join(','.join(names) for names in sorted(fitting))} fit",
    )


def _inferred(
    table: Table,
    snapshot: Snapshot,
    samples: Sequence[_Sampled],
    told: BucketLayout,
    choices: Sequence[tuple[str, ...]],
) -> BucketLayout:
    """The layout with the count, and the hash fields where they are not given, that the stored keys show."""
    least = 1 + max((bucket_of(file.file_id) or 0 for file in snapshot.base_files_all()), default=0)
    fits = _best([fit for fields in choices for fit in _fits(samples, replace(told, fields=fields), least)])
    if not fits:
        raise _no_count(table, samples, told, least)
    counts = sorted({count for fit in fits for count in fit.likely})
    if len(counts) > 1:
        keys = sum(len(one.keys) for one in samples)
        raise OptionError(
            f"table {table.name} is a bucket table, and its {keys} stored keys do not tell with how many buckets",
            culprit=COUNT_OPTION,
            hint=f"say it once, as its other writers do: -o {COUNT_OPTION}=N; {_listed(counts)} fit",
        )
    fields = {fit.fields for fit in fits}
    if len(fields) > 1 and counts[0] > 1:
        raise _open_fields(table, fields)
    return replace(told, count=counts[0], fields=told.fields if told.fields in fields else min(fields))


def _field_choices(key_fields: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All hash fields there can be, in the order of the record key; a key of very many fields is hashed as a whole."""
    yield tuple(key_fields)
    if len(key_fields) <= _MOST_FIELDS:
        for size in range(1, len(key_fields)):
            yield from itertools.combinations(key_fields, size)


def _fits(samples: Sequence[_Sampled], layout: BucketLayout, least: int) -> Iterator[_Fit]:
    """The counts from ``least`` on with which every sampled key lies in its bucket, by either key rule."""
    for rule in KeyRule:
        distances = hash_distances(((one.bucket, one.keys) for one in samples), replace(layout, key_rule=rule))
        shared = int(np.gcd.reduce(distances))
        counts = tuple(count for count in _divisors(shared) if least <= count <= MAX_BUCKETS)
        if counts or shared == 0:
            yield _Fit(layout.fields, counts or (least, least + 1), is_sure=len(distances) >= _TELLING)


def _best(fits: Sequence[_Fit]) -> list[_Fit]:
    """Of those that are sure, the ones with the greatest count: a smaller one fits whatever the keys are."""
    greatest = max((fit.counts[-1] for fit in fits if fit.is_sure), default=0)
    return [fit for fit in fits if not fit.is_sure or fit.counts[-1] == greatest]


def _divisors(number: int) -> list[int]:
    """All divisors, ascending; none of 0."""
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0] if number else []
    return sorted({*small, *(number // one for one in small)})


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts[:_NAMED])) + (", ..." if len(counts) > _NAMED else "")


def _no_count(table: Table, samples: Sequence[_Sampled], told: BucketLayout, least: int) -> OptionError:
    """No count fits all partitions: those that fit each of them, if they are all there is to say."""
    by_partition: dict[str, list[_Sampled]] = {}
    for one in samples:
        by_partition.setdefault(one.file.partition_path, []).append(one)
    apart = {
        path: sorted({fit.counts[-1] for fit in _fits(some, told, 1 + max(one.bucket for one in some))})
        for path, some in by_partition.items()
    }
    found = [f"{path or 'the table'}: {counts[-1]}" for path, counts in sorted(apart.items()) if counts]
    return OptionError(
        f"table {table.name} is a bucket table (its buckets go up to {least - 1}), but no single bucket count "
        "fits its stored keys",
        culprit=COUNT_OPTION,
        hint=f"say how it was written: -o {COUNT_OPTION}=N, -o {RULES_OPTION}=... "
        f"for partitions with a count of their own, -o {FIELDS_OPTION}=... for the hashed fields"
        + (f"; by partition: {', '.join(found[:_NAMED])}" if found else ""),
    )


def _stored_rule(samples: Iterable[_Sampled], layout: BucketLayout) -> KeyRule | None:
    found: dict[KeyRule, BaseFile] = {}
    samples = list(samples)
    for one in samples:
        count = layout.count_of(one.file.partition_path)
        try:
            rule = key_rule_of(one.keys, one.bucket, count, layout)
        except TableCorruptError as error:
            alike = [other for other in samples if layout.count_of(other.file.partition_path) == count]
            raise _explained(error, alike, count, layout) from error
        if rule is not None:
            found[rule] = one.file
    if len(found) > 1:
        raise TableCorruptError(
            f"{found[KeyRule.HUDI_0_15].path} was written by Hudi 0.15's way of hashing keys, "
            f"{found[KeyRule.HUDI_1].path} by that of 1.x",
            culprit=found[KeyRule.HUDI_0_15].path,
            hint="keys with ':' may be stored twice: roll the commits of one of them back, "
            "or rewrite the table with one release",
        )
    return next(iter(found), None)


def _explained(
    error: TableCorruptError, samples: Sequence[_Sampled], count: int, layout: BucketLayout
) -> TableCorruptError:
    """The same error, with the count that would fit, if there is one."""
    least = 1 + max((one.bucket for one in samples), default=0)
    for fit in _fits(samples, layout, least):
        if count not in fit.likely:
            hint = f"{COUNT_OPTION}={_listed(fit.likely)} would fit: say with how many buckets the table was written"
            return TableCorruptError(error.message, culprit=error.culprit, hint=hint)
    return error
