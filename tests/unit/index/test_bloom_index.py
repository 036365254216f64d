from __future__ import annotations

import pyarrow as pa

from lakeindex.bloom import build_filter, filter_candidates, usable_filter
from lakeindex.hashing.arrow import string_buffers
from lakeindex.index.bloom import BloomIndex
from lakeindex.index.bloom_options import BloomOptions
from lakeindex.index.contract import FileFacts, FilesInScope, FileSlices
from lakeindex.index.key_ranges import KeyRange
from lakeindex.model import IndexSpec, IndexType
from lakeindex.options.types import WriteConfig

KEYS = pa.array([f"key-{i:03d}" for i in range(100)])
FILES = FilesInScope(
    [
        FileFacts(7, "us", "a", KeyRange("key-010", "key-019")),
        FileFacts(3, "eu", "b", KeyRange("key-050", "key-059")),
        FileFacts(4, "eu", "c", KeyRange("z", "zz")),
        FileFacts(5, "us", "d"),
    ]
)


def slices_of(config: WriteConfig) -> FileSlices:
    slices = BloomIndex(IndexSpec(IndexType.GLOBAL_BLOOM)).ask(KEYS, FILES, config).slices
    assert slices is not None
    return slices


def test_proposals_are_slices_inside_the_ranges() -> None:
    slices = slices_of(WriteConfig())
    assert slices.file.tolist() == [7, 3, 5]
    assert slices.from_row.tolist() == [10, 50, 0]
    assert slices.to_row.tolist() == [20, 60, 100]


def test_ranges_can_be_left_unused() -> None:
    slices = slices_of(WriteConfig(areas=(BloomOptions(prune_by_ranges=False),)))
    assert slices.file.tolist() == [7, 3, 4, 5]
    assert int((slices.to_row - slices.from_row).sum()) == 400


def test_candidates_are_rows_of_the_chunk() -> None:
    built = build_filter(KEYS.slice(12, 3), WriteConfig(filter_fpp=1e-9))
    rows = filter_candidates(usable_filter(built.to_text(), "DYNAMIC_V0"), string_buffers(KEYS), 10, 20)
    assert rows.tolist() == [12, 13, 14]


def test_without_a_usable_filter_every_row_is_a_candidate() -> None:
    text = build_filter(KEYS, WriteConfig()).to_text()
    for filter_text, kind in ((None, None), (b"damaged", None), (text, "UNKNOWN"), (text[:-4], "DYNAMIC_V0")):
        unusable = usable_filter(filter_text, kind)
        assert unusable is None
        assert filter_candidates(unusable, string_buffers(KEYS), 10, 20).tolist() == list(range(10, 20))
