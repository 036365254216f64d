"""BUCKET: a key's hash says which file group of its partition it lives in.
Nothing is stored, no file is looked into to find it.

For a key that Hudi 0.15 and 1.x place differently the group of the other rule is proposed, too: if the key is found
there, the table is a mix of both, and is refused (:meth:`BucketHomes.check_stored`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakeindex.hashing.arrow import RowNumbers, StringArray, plain_strings
from lakeindex.index.bucket.bucket import (
    ambiguous_rows,
    bucket_ids,
    bucket_of,
    file_id_of,
    groups_by_bucket,
    misplaced_key,
    mixed_rules,
    refused,
)
from lakeindex.index.bucket.bucket_layout import COUNT_OPTION, BucketLayout, layout_of
from lakeindex.index.contract import Candidates, FileGroups, FilesInScope, Homes, Index
from lakeindex.model import Group, IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class BucketHomes:
    """The one file group of each bucket; see :class:`lakeindex.index.contract.KeyHomes`."""

    layout: BucketLayout
    _seen: list[tuple[FileGroups, dict[str, dict[int, Group]]]] = field(default_factory=list, repr=False, compare=False)

    def of(self, keys: StringArray, partition: str) -> Homes:
        """Bucket of each key: int32 [n]."""
        return bucket_ids(keys, self.layout.count_of(partition), self.layout)

    def home_of(self, file_id: str) -> int | None:
        """The bucket that a file group is; None if it is none."""
        return bucket_of(file_id)

    def group_of(self, partition: str, home: int, groups: FileGroups) -> Group | None:
        """The live file group of a bucket; None if there is none yet."""
        return self.groups_in(groups).get(partition, {}).get(home)

    def new_file_id(self, home: int) -> str:
        """Id of a new file group for a bucket."""
        return file_id_of(home)

    def check_stored(self, keys: StringArray, group: Group) -> None:
        """Keys that are stored in a file group belong there.

        Raises:
            TableCorruptError: one does not; the message names it.
        """
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
        """A new key has one place to go."""
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
