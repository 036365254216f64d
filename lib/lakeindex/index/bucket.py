"""BUCKET: a key's hash says which file group of its partition it lives in.
Nothing is stored, no file is looked into to find it.

``bucket = (hash & 0x7fffffff) % count`` with Hudi's hash (:mod:`lakeindex.hashing.java_strings`), bit for bit. A
partition has at most one file group a bucket, whose file id begins with the bucket's number in eight digits. The count
is bound to the table; ``lakeindex rescale`` changes it.

For a key with ``:`` that Hudi 0.15 and 1.x place differently the group of the other rule is proposed, too: if the key
is found there, the table is a mix of both, and is refused (:meth:`BucketHomes.check_stored`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field
from msgspec.structs import replace

from lakeindex.errors import TableCorruptError
from lakeindex.format.file_names import new_file_id
from lakeindex.frozen import ComparedInPart
from lakeindex.hashing.arrow import RowNumbers, StringArray, plain_strings
from lakeindex.hashing.java_strings import bucket_hashes
from lakeindex.index.advice import Expected, KindAdvice, Workload
from lakeindex.index.bucket_options import COUNT_OPTION, BucketLayout, KeyRule, layout_of
from lakeindex.index.contract import Candidates, FileGroups, FilesInScope, Homes, Index
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad, touched
from lakeindex.model import Group, IndexSpec, IndexType
from lakeindex.options.types import WriteConfig

_DIGITS: Final = 8
_PREFIX: Final = re.compile(r"[0-9]{8}")
_SIGN: Final = np.int32(0x7FFFFFFF)


def bucket_ids(keys: StringArray, count: int, layout: BucketLayout) -> npt.NDArray[np.int32]:
    """Bucket of each key: int32 [n].

    Args:
        count: buckets of their partition.

    Raises:
        InvariantError: a key is null.
    """
    return _hashes(keys, layout) % np.int32(count)


def _hashes(keys: StringArray, layout: BucketLayout) -> npt.NDArray[np.int32]:
    """The non-negative hash of each key: int32 [n]."""
    return bucket_hashes(keys, layout.fields, old_rule=layout.key_rule is KeyRule.HUDI_0_15) & _SIGN


def ambiguous_rows(keys: StringArray) -> RowNumbers:
    """Rows of the keys that the two releases may take apart differently: those with a ``:``. int64, ascending."""
    found = pc.match_substring(plain_strings(keys), ":")
    return np.flatnonzero(found.to_numpy(zero_copy_only=False)).astype(np.int64)


def bucket_of(file_id: str) -> int | None:
    """The bucket that a file id begins with; ``None`` if it does not begin with a number."""
    return int(file_id[:_DIGITS]) if _PREFIX.match(file_id) else None


def file_id_of(bucket: int, entropy: bytes | None = None) -> str:
    """Id of a new file group of a bucket; 16 bytes of ``entropy`` make it a function of them."""
    return f"{bucket:0{_DIGITS}d}{new_file_id(entropy)[_DIGITS:]}"


def groups_by_bucket(partition_path: str, file_ids: Iterable[str], layout: BucketLayout) -> dict[int, str]:
    """File group of each bucket of a partition.

    Raises:
        TableCorruptError: a group is none of a bucket index, is beyond the count, or shares its bucket.
    """
    count = layout.count_of(partition_path)
    found: dict[int, str] = {}
    for file_id in file_ids:
        bucket = bucket_of(file_id)
        if bucket is None:
            raise refused(
                f"file group {file_id} in {partition_path!r} is of no bucket: another index made it",
                file_id,
                f"use the index that made it, or rewrite the table: `lakeindex rescale TABLE --buckets {count}` where "
                "BUCKET is its index, else `lakeindex index migrate TABLE --to BUCKET`",
            )
        if bucket >= count:
            raise refused(
                f"file group {file_id} in {partition_path!r} is bucket {bucket}, "
                f"but the table is bound to {count} buckets",
                file_id,
                f"write with the table's real {COUNT_OPTION}; "
                "a table that Hudi rescaled is brought back with `lakeindex rescale TABLE --buckets ...`",
            )
        if bucket in found:
            raise refused(
                f"bucket {bucket} of {partition_path!r} has two file groups, {found[bucket]} and {file_id}",
                file_id,
                "two writers made it at once: roll the later commit back, or rewrite the partition with "
                f"`lakeindex rescale TABLE --buckets {count}`",
            )
        found[bucket] = file_id
    return found


def misplaced_key(keys: StringArray, bucket: int, count: int, layout: BucketLayout) -> int | None:
    """Row of the first key that is not in its bucket; ``None`` if all are."""
    wrong = np.flatnonzero(bucket_ids(keys, count, layout) != bucket)
    return int(wrong[0]) if len(wrong) else None


def key_rule_of(keys: StringArray, bucket: int, count: int, layout: BucketLayout) -> KeyRule | None:
    """By which rule a bucket's keys were placed; ``None`` if they would be there by either.

    Args:
        layout: the fields; its rule is not looked at.

    Raises:
        TableCorruptError: some keys are there by one rule, others by the other, or one by neither.
    """
    fits = {
        rule: bucket_ids(keys, count, replace(layout, key_rule=rule)) == bucket
        for rule in (KeyRule.HUDI_1, KeyRule.HUDI_0_15)
    }
    new, old = fits[KeyRule.HUDI_1], fits[KeyRule.HUDI_0_15]
    neither = np.flatnonzero(~new & ~old)
    if len(neither):
        key = plain_strings(keys)[int(neither[0])].as_py()
        raise refused(
            f"key {key!r} is stored in bucket {bucket}, where it does not belong with {count} buckets",
            key,
            f"{COUNT_OPTION} or the hash fields are not those the table was written with",
        )
    only_new, only_old = np.flatnonzero(new & ~old), np.flatnonzero(old & ~new)
    if len(only_new) and len(only_old):
        raise mixed_rules(plain_strings(keys)[int(only_old[0])].as_py(), bucket, KeyRule.HUDI_0_15, KeyRule.HUDI_1)
    if len(only_new):
        return KeyRule.HUDI_1
    return KeyRule.HUDI_0_15 if len(only_old) else None


def hash_distances(samples: Iterable[tuple[int, StringArray]], layout: BucketLayout) -> npt.NDArray[np.int64]:
    """How far hashes of sampled keys are above their buckets: ascending, each distance once.

    A key of hash ``h`` is in bucket ``b`` of ``n`` only if ``n`` divides ``h - b``.

    Args:
        samples: bucket and stored keys of some file groups.
    """
    distances = [_hashes(keys, layout).astype(np.int64) - bucket for bucket, keys in samples]
    return np.unique(np.concatenate([np.array([], np.int64), *distances]))


def mixed_rules(key: str, bucket: int, found: KeyRule, bound: KeyRule) -> TableCorruptError:
    return refused(
        f"key {key!r} is stored in bucket {bucket}, where Hudi {found} puts it, "
        f"but the table is written as Hudi {bound} does",
        key,
        "the releases place keys with ':' differently; write this table with one of them only: "
        "roll the other's commits back, or rewrite the table with `lakeindex rescale TABLE --buckets ...`",
    )


def refused(message: str, culprit: str, hint: str) -> TableCorruptError:
    return TableCorruptError(message, culprit=culprit, hint=hint)


class BucketHomes(ComparedInPart):
    """The one file group of each bucket; see :class:`lakeindex.index.contract.KeyHomes`."""

    aside: ClassVar = frozenset({"_seen"})
    layout: BucketLayout
    _seen: list[tuple[FileGroups, dict[str, dict[int, Group]]]] = field(default_factory=list)

    def of(self, keys: StringArray, partition: str) -> Homes:
        return bucket_ids(keys, self.layout.count_of(partition), self.layout)

    def home_of(self, file_id: str) -> int | None:
        return bucket_of(file_id)

    def group_of(self, partition: str, home: int, groups: FileGroups) -> Group | None:
        return self.groups_in(groups).get(partition, {}).get(home)

    def new_file_id(self, home: int) -> str:
        return file_id_of(home)

    def check_stored(self, keys: StringArray, group: Group) -> None:
        partition, file_id = group
        bucket = groups_by_bucket(partition, [file_id], self.layout)
        count = self.layout.count_of(partition)
        home = next(iter(bucket))
        row = misplaced_key(keys, home, count, self.layout)
        if row is None:
            return
        key = plain_strings(keys)[row].as_py()
        other = replace(self.layout, key_rule=self.layout.key_rule.other)
        if int(bucket_ids(pa.array([key]), count, other)[0]) == home:
            raise mixed_rules(key, home, other.key_rule, self.layout.key_rule)
        raise refused(
            f"key {key!r} is stored in file group {file_id} of {partition!r}, but its bucket is another one of {count}",
            key,
            f"another writer uses another {COUNT_OPTION} or other hash fields; roll its commits back",
        )

    def groups_in(self, groups: FileGroups) -> dict[str, dict[int, Group]]:
        """Partition -> bucket -> its group; made once for the groups that are asked about chunk after chunk.

        Raises:
            TableCorruptError: a partition's groups are not one a bucket.
        """
        if self._seen and self._seen[-1][0] is groups:
            return self._seen[-1][1]
        by_partition: dict[str, list[str]] = {}
        for path, file_id in groups.numbers:
            by_partition.setdefault(path, []).append(file_id)
        homes = {
            path: {bucket: (path, file_id) for bucket, file_id in groups_by_bucket(path, ids, self.layout).items()}
            for path, ids in by_partition.items()
        }
        self._seen[:] = [(groups, homes)]
        return homes


@dataclass(frozen=True, slots=True)
class BucketIndex(Index):
    """The bucket index."""

    spec: IndexSpec
    placed: BucketHomes

    @property
    def homes(self) -> BucketHomes:
        return self.placed

    def ask(self, keys: StringArray, files: FilesInScope, config: WriteConfig, store: Any = None) -> Candidates:
        """The group of each key's bucket, if it exists; of a key that the releases place differently, both.

        Raises:
            TableCorruptError: a partition's groups are not one a bucket.
        """
        del config, store
        rows: dict[int, RowNumbers] = {}
        for path, groups in self.placed.groups_in(files.groups).items():
            for bucket, found in self._rows(keys, path):
                if bucket in groups:
                    rows[files.groups.numbers[groups[bucket]]] = found
        return Candidates(rows=rows)

    def _rows(self, keys: StringArray, partition: str) -> list[tuple[int, RowNumbers]]:
        """Buckets that keys may be in, and their rows, ascending."""
        layout = self.placed.layout
        count = layout.count_of(partition)
        buckets = bucket_ids(keys, count, layout)
        rows = np.arange(len(buckets), dtype=np.int64)
        odd = ambiguous_rows(keys)
        if len(odd):
            other = replace(layout, key_rule=layout.key_rule.other)
            elsewhere = bucket_ids(plain_strings(keys).take(pa.array(odd)), count, other)
            differs = elsewhere != buckets[odd]
            buckets = np.concatenate([buckets, elsewhere[differs]])
            rows = np.concatenate([rows, odd[differs]])
        order = np.lexsort((rows, buckets))
        found, starts = np.unique(buckets[order], return_index=True)
        pieces = np.split(rows[order], starts[1:]) if len(found) else []
        return [(int(bucket), piece) for bucket, piece in zip(found, pieces, strict=True)]


def make_index(spec: IndexSpec) -> BucketIndex:
    """The kind. Raises: OptionError: a bound option is not valid."""
    return BucketIndex(spec, BucketHomes(layout_of(spec)))


_CROWDED: Final = 2.0
_EMPTY: Final = 0.125


def _fitting(work: Workload, config: WriteConfig) -> int:
    """Buckets that make a partition's files as large as they should be."""
    return max(1, math.ceil(work.bytes / max(work.partitions, 1) / config.max_file_bytes))


def _expected(work: Workload, config: WriteConfig) -> Expected:
    """Every key has one bucket; those with a key are opened and, whether it is new or not, written."""
    buckets = _fitting(work, config)
    if work.now is IndexType.BUCKET:
        buckets = max(1, round(work.files / max(work.partitions, 1)))
    hit = sum(touched(buckets, keys) for keys in work.keys_by_partition)
    groups = max(buckets * len(work.keys_by_partition), 1)
    share = hit / groups
    load = LookupLoad(work.keys, work.files, keys_located=work.keys, pairs_verified=work.keys)
    load = replace(
        load,
        files_opened=hit if work.files else 0.0,
        rows_matched=work.rows * share,
        key_bytes=work.bytes * share * work.key_share,
        footer_bytes=work.rows * share * FILTER_BYTES_A_ROW * FOOTER_TEXT,
    )
    note = f"{buckets} buckets a partition; a table of another type is rewritten first"
    return Expected(load, work.keys, hit, work.bytes / max(buckets * max(len(work.keys_by_partition), 1), 1), note)


def _warnings(work: Workload, config: WriteConfig) -> list[str]:
    if not work.files:
        return []
    size, target = work.bytes / work.files, config.max_file_bytes
    if size > _CROWDED * target:
        what = "too few"
    elif size < _EMPTY * target and work.files > len(work.keys_by_partition):
        what = "too many"
    else:
        return []
    said = (
        f"the bucket count is off, {what}: a bucket has {size / 2**20:,.1f} MiB and "
        f"{work.rows / work.files:,.0f} rows on average, the target is {target / 2**20:,.0f} MiB; "
        f"lakeindex rescale TABLE --buckets {_fitting(work, config)}"
    )
    return [said]


ADVICE: Final = KindAdvice(_expected, is_plain=True, warnings=_warnings)
