"""Which bucket a key is in, and which file group a bucket is.

``bucket = (hash & 0x7fffffff) % count`` with Hudi's hash (:mod:`lakeindex.hashing.java_hash`), bit for bit. A partition
has at most one file group a bucket, whose file id begins with the bucket's number in eight digits. The count is bound
to the table; ``lakeindex rescale`` changes it.

Hudi 0.15 and 1.x place some keys with ``:`` differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lakeindex.errors import TableCorruptError
from lakeindex.format.file_names import new_file_id
from lakeindex.hashing.arrow import RowNumbers, StringArray, plain_strings
from lakeindex.hashing.java_hash import bucket_hashes
from lakeindex.index.bucket.bucket_layout import COUNT_OPTION, BucketLayout, KeyRule

_DIGITS: Final = 8
_PREFIX: Final = re.compile(r"[0-9]{8}")
_SIGN: Final = np.int32(0x7FFFFFFF)


def bucket_ids(keys: StringArray, count: int, layout: BucketLayout) -> npt.NDArray[np.int32]:
    """Bucket of each key: int32 [n].

    Args:
        count: buckets of their partition.
        layout: fields that are hashed, and how a key is taken apart.

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
                "use the index that made it, or make a bucket table of this one "
                "with `lakeindex index migrate --to BUCKET`",
            )
        if bucket >= count:
            raise refused(
                f"file group {file_id} in {partition_path!r} is bucket {bucket}, "
                f"but the table is bound to {count} buckets",
                file_id,
                f"write with the table's real {COUNT_OPTION}; "
                "a table that Hudi rescaled is brought back with `lakeindex rescale`",
            )
        if bucket in found:
            raise refused(
                f"bucket {bucket} of {partition_path!r} has two file groups, {found[bucket]} and {file_id}",
                file_id,
                "two writers made it at once: roll the later commit back, "
                "or rewrite the partition with `lakeindex rescale`",
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
        keys: keys that are stored in the bucket's file group.
        count: buckets of the partition.
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
        layout: fields and key rule.
    """
    distances = [_hashes(keys, layout).astype(np.int64) - bucket for bucket, keys in samples]
    return np.unique(np.concatenate([np.array([], np.int64), *distances]))


def mixed_rules(key: str, bucket: int, found: KeyRule, bound: KeyRule) -> TableCorruptError:
    """The error of a key that another release placed."""
    return refused(
        f"key {key!r} is stored in bucket {bucket}, where Hudi {found} puts it, "
        f"but the table is written as Hudi {bound} does",
        key,
        "the releases place keys with ':' differently; write this table with one of them only: "
        "roll the other's commits back, or rewrite the table with `lakeindex rescale`",
    )


def refused(message: str, culprit: str, hint: str) -> TableCorruptError:
    """The error of a table whose file groups or keys are not as the layout says."""
    return TableCorruptError(message, culprit=culprit, hint=hint)
