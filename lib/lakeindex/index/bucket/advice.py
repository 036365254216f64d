"""What BUCKET has to do for a batch, and how many buckets suit a table."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from lakeindex.index.advice import Expected, KindAdvice, Workload
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad, touched
from lakeindex.model import IndexType
from lakeindex.options.types import WriteConfig

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
