"""Another writer's bucket table: are its keys where the options say, and which release's rule placed them?

Hudi keeps neither the bucket count nor anything else of the index in the table; the numbers in its file ids are a lower bound
of the count. So keys of some file groups are hashed before the table is bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakeindex.config import WriteConfig
from lakeindex.errors import OptionError, TableCorruptError
from lakeindex.index.bucket import bucket_of, fitting_count, groups_by_bucket, key_rule_of
from lakeindex.index.bucket_layout import (
    COUNT_OPTION,
    KEY_RULE_OPTION,
    BucketLayout,
    KeyRule,
    layout_of,
    spec_of,
)
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.stages.key_columns import read_record_keys
from lakeindex.table.file_system_view import Snapshot
from lakeindex.table.handle import Table

_SAMPLED_FILES: Final = 12


def index_of_stored(table: Table, snapshot: Snapshot, config: WriteConfig) -> IndexSpec | None:
    """The index that a table is to be bound to, where stored keys say more of it than the options do.

    Args:
        table: the table; nothing is done if it is bound.
        snapshot: its state.
        config: options of its first write by us.

    Returns:
        The options of a bucket index with the key rule that placed the stored keys; None for other index types.

    Raises:
        OptionError: the options cannot be those the table was written with, or one is not valid.
        TableCorruptError: the table's file groups are not a bucket index's, or its keys were placed by both rules.
    """
    if table.binding is not None:
        return None
    spec = table.bound_for(config).index
    if spec.index_type is not IndexType.BUCKET:
        return None
    layout = layout_of(spec)
    for partition in snapshot.partitions():
        groups_by_bucket(partition, (file.file_id for file in snapshot.base_files(partition)), layout)
    rule = _stored_rule(table, _sample(snapshot.base_files_all()), layout)
    if rule is None:
        return spec
    if config.bucket_key_rule is not None and config.bucket_key_rule != rule.value:
        raise OptionError(
            f"option {KEY_RULE_OPTION} cannot be {config.bucket_key_rule}: stored keys were placed as Hudi {rule} does",
            culprit=KEY_RULE_OPTION,
            hint="leave the option out",
        )
    return spec_of(replace(layout, key_rule=rule))


def _sample(files: tuple[BaseFile, ...]) -> list[BaseFile]:
    step = max(1, -(-len(files) // _SAMPLED_FILES))
    return list(files[::step])


def _stored_rule(table: Table, files: list[BaseFile], layout: BucketLayout) -> KeyRule | None:
    found: dict[KeyRule, BaseFile] = {}
    samples = [(file, bucket_of(file.file_id) or 0, read_record_keys(table.storage, file)) for file in files]
    for file, bucket, keys in samples:
        count = layout.count_of(file.partition_path)
        try:
            rule = key_rule_of(keys, bucket, count, layout)
        except TableCorruptError as error:
            alike = [(b, k) for f, b, k in samples if layout.count_of(f.partition_path) == count]
            raise _explained(error, alike, count, layout) from error
        if rule is not None:
            found[rule] = file
    if len(found) > 1:
        raise TableCorruptError(
            f"{found[KeyRule.HUDI_0_15].path} was written by Hudi 0.15's way of hashing keys, "
            f"{found[KeyRule.HUDI_1].path} by that of 1.x",
            culprit=found[KeyRule.HUDI_0_15].path,
            hint="keys with ':' may be stored twice: roll the commits of one of them back, or rewrite the table with one release",
        )
    return next(iter(found), None)


def _explained(
    error: TableCorruptError, samples: list[tuple[int, pa.Array]], count: int, layout: BucketLayout
) -> TableCorruptError:
    """The same error, with the count that would fit, if there is one."""
    for rule in KeyRule:
        fits = fitting_count(samples, replace(layout, key_rule=rule))
        if fits is not None and fits != count:
            hint = f"{COUNT_OPTION}={fits} would fit: say with how many buckets the table was written"
            return TableCorruptError(error.message, culprit=error.culprit, hint=hint)
    return error
