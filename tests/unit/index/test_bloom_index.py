from __future__ import annotations

import pyarrow as pa

from lakeindex.bloom import build_filter
from lakeindex.config import WriteConfig
from lakeindex.index.bloom import BloomIndex, usable_filter
from lakeindex.index.key_ranges import KeyRange
from lakeindex.index.protocol import FileFacts

KEYS = pa.array([f"key-{i:03d}" for i in range(100)])
FILES = [
    FileFacts("us", KeyRange("key-010", "key-019")),
    FileFacts("eu", KeyRange("key-050", "key-059")),
    FileFacts("us", KeyRange(None, None)),
]


def test_index_of_a_partition_asks_only_its_files() -> None:
    index = BloomIndex(is_global=False)
    assert index.files_to_ask("us", FILES).tolist() == [0, 2]
    assert index.files_to_ask("asia", FILES).tolist() == []


def test_global_index_asks_every_file() -> None:
    assert BloomIndex(is_global=True).files_to_ask("us", FILES).tolist() == [0, 1, 2]
    assert BloomIndex(is_global=True).files_to_ask(None, FILES).tolist() == [0, 1, 2]


def test_proposals_are_slices_inside_the_ranges() -> None:
    slices = BloomIndex(is_global=True).propose(KEYS, FILES, WriteConfig())
    assert slices.from_row.tolist() == [10, 50, 0]
    assert slices.to_row.tolist() == [20, 60, 100]


def test_ranges_can_be_left_unused() -> None:
    slices = BloomIndex(is_global=True).propose(KEYS, FILES, WriteConfig(prune_by_ranges=False))
    assert slices.pairs == 300


def test_candidates_are_rows_of_the_chunk() -> None:
    built = build_filter(KEYS.slice(12, 3), WriteConfig(filter_fpp=1e-9))
    index = BloomIndex(is_global=False)
    rows = index.candidates(KEYS, 10, 20, built.to_text(), "DYNAMIC_V0")
    assert rows.tolist() == [12, 13, 14]


def test_without_a_usable_filter_every_row_is_a_candidate() -> None:
    index = BloomIndex(is_global=False)
    text = build_filter(KEYS, WriteConfig()).to_text()
    for filter_text, kind in ((None, None), (b"damaged", None), (text, "UNKNOWN"), (text[:-4], "DYNAMIC_V0")):
        assert usable_filter(filter_text, kind) is None
        assert index.candidates(KEYS, 10, 20, filter_text, kind).tolist() == list(range(10, 20))
