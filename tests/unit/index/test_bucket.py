"""Where the bucket index looks, where it puts new keys, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.index.bucket import (
    BucketIndex,
    bucket_ids,
    bucket_of,
    file_id_of,
    groups_by_bucket,
    hash_distances,
    key_rule_of,
    make_index,
    misplaced_key,
)
from lakeindex.index.bucket_options import BucketLayout, KeyRule, parse_rules, spec_of
from lakeindex.index.contract import FileFacts, FilesInScope
from lakeindex.options.types import WriteConfig
from tests.vectors_support import unpack_table

LAYOUT = BucketLayout(4, fields=("id",))
KEYS = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["a:b", "c:d,e", "id:1,x"])), max_size=30, unique=True)


def index(layout: BucketLayout = LAYOUT) -> BucketIndex:
    return make_index(spec_of(layout))


def files(*file_ids: str, partition: str = "p") -> FilesInScope:
    facts = [FileFacts(number, partition, file_id) for number, file_id in enumerate(file_ids)]
    return FilesInScope(facts, partition)


@pytest.mark.parametrize(
    ("table", "rule"), [("h0150_v6_bucket", KeyRule.HUDI_0_15), ("h120_v6_bucket", KeyRule.HUDI_1)]
)
def test_every_key_of_hudis_tables_is_where_we_say(tmp_path: Path, table: str, rule: KeyRule) -> None:
    folder = unpack_table(table, tmp_path)
    layout = BucketLayout(4, fields=("id",), key_rule=rule)
    rows = 0
    for path in (one for one in folder.rglob("*.parquet") if ".hoodie" not in one.parts):
        keys = pq.read_table(path, columns=["_hoodie_record_key"]).column(0)
        bucket = bucket_of(path.name.split("_")[0])
        assert bucket is not None
        assert misplaced_key(keys, bucket, 4, layout) is None
        rows += len(keys)
    assert rows > 100


@pytest.mark.parametrize("count", [3, 5, 7, 256])
def test_a_negative_hash_counts_without_its_sign(count: int) -> None:
    """``(hash & Integer.MAX_VALUE) % count``: of a power of two the sign makes no difference."""
    keys = [f"key-{n}" for n in range(200)]

    def hash_code(key: str) -> int:
        total = 0
        for char in key:
            total = (31 * total + ord(char)) & 0xFFFFFFFF
        return (31 + total) & 0xFFFFFFFF  # of the list that holds it

    assert any(hash_code(key) >= 2**31 for key in keys)
    found = bucket_ids(pa.array(keys), count, BucketLayout(count, fields=("id",)))
    assert found.tolist() == [(hash_code(key) & 0x7FFFFFFF) % count for key in keys]


@given(KEYS, st.integers(1, 9), st.sampled_from(KeyRule))
def test_a_key_is_looked_for_where_it_would_be_put(keys: list[str], count: int, rule: KeyRule) -> None:
    layout = BucketLayout(count, fields=("id",), key_rule=rule)
    kind = index(layout)
    everywhere = files(*(file_id_of(bucket) for bucket in range(count)))
    array = pa.array(keys, pa.string())
    homes = kind.homes.of(array, "p")
    located = kind.ask(array, everywhere, WriteConfig())
    assert not len(located.unknown)
    for row, home in enumerate(homes.tolist()):
        assert row in located.rows[home].tolist()
    for rows in located.rows.values():
        assert rows.dtype == np.int64
        assert rows.tolist() == sorted(set(rows.tolist()))
    plain = sum(":" not in key for key in keys)
    assert len(keys) <= sum(len(rows) for rows in located.rows.values()) <= 2 * len(keys) - plain


def test_groups_that_are_not_there_are_no_candidates() -> None:
    keys = pa.array([f"k{i}" for i in range(40)])
    homes = index().homes.of(keys, "p")
    located = index().ask(keys, files(file_id_of(2)), WriteConfig())
    assert located.rows[0].tolist() == np.flatnonzero(homes == 2).tolist()
    assert list(located.rows) == [0]


def test_a_read_by_key_alone_looks_in_every_partition() -> None:
    layout = BucketLayout(2, parse_rules("^q,5"), ("id",))
    facts = [FileFacts(b, "p", file_id_of(b)) for b in range(2)] + [
        FileFacts(2 + b, "q", file_id_of(b)) for b in range(5)
    ]
    keys = pa.array(["k"])
    rows = index(layout).ask(keys, FilesInScope(facts), WriteConfig()).rows
    assert sorted(rows) == [int(bucket_ids(keys, 2, layout)[0]), 2 + int(bucket_ids(keys, 5, layout)[0])]


def test_the_group_of_a_home() -> None:
    known = files(file_id_of(1), file_id_of(3)).groups
    homes = index().homes
    assert homes.group_of("p", 3, known) == ("p", list(known.numbers)[1][1])
    assert homes.group_of("p", 0, known) is None
    assert bucket_of(homes.new_file_id(7)) == 7


def test_file_ids_are_hudis() -> None:
    made = file_id_of(3, b"0123456789abcdef")
    assert made == file_id_of(3, b"0123456789abcdef")
    assert made.startswith("00000003-")
    assert made.endswith("-0")
    assert bucket_of("6d7d4736-8adf-534383e41dae-0") is None


@pytest.mark.parametrize(
    ("file_ids", "why"),
    [
        (["abcdef01-1-0"], "is of no bucket"),
        ([file_id_of(4)], "is bucket 4, but the table is bound to 4"),
        ([file_id_of(1), file_id_of(1)], "has two file groups"),
    ],
)
def test_groups_of_another_making_are_refused(file_ids: list[str], why: str) -> None:
    with pytest.raises(TableCorruptError, match=why) as caught:
        index().ask(pa.array(["k"]), files(*file_ids), WriteConfig())
    assert caught.value.culprit == file_ids[-1]
    assert caught.value.hint
    with pytest.raises(TableCorruptError, match=why):
        groups_by_bucket("p", file_ids, LAYOUT)


def odd_key(count: int = 4) -> str:
    """A key that the releases put into different buckets."""
    old = BucketLayout(count, fields=("id",), key_rule=KeyRule.HUDI_0_15)
    new = BucketLayout(count, fields=("id",))
    candidates = pa.array([f"a:{i}" for i in range(50)])
    differs = bucket_ids(candidates, count, old) != bucket_ids(candidates, count, new)
    return candidates[int(np.flatnonzero(differs)[0])].as_py()


def test_a_mix_of_both_rules_is_refused_by_name() -> None:
    key = odd_key()
    array = pa.array([key])
    old_home = int(bucket_ids(array, 4, BucketLayout(4, fields=("id",), key_rule=KeyRule.HUDI_0_15))[0])
    group = file_id_of(old_home)
    assert index().ask(array, files(group), WriteConfig()).rows[0].tolist() == [0], "it is looked for there, too"
    with pytest.raises(TableCorruptError, match=r"where Hudi 0\.15 puts it") as caught:
        index().homes.check_stored(array, ("p", group))
    assert caught.value.culprit == key
    index().homes.check_stored(array, ("p", file_id_of(int(index().homes.of(array, "p")[0]))))


def test_a_key_of_another_count_is_refused_by_name() -> None:
    keys = pa.array([f"k{i}" for i in range(40)])
    with pytest.raises(TableCorruptError, match="its bucket is another one of 4"):
        index().homes.check_stored(keys, ("p", file_id_of(0)))


def test_the_rule_is_found_out_from_stored_keys() -> None:
    key = odd_key()
    for rule in KeyRule:
        layout = BucketLayout(4, fields=("id",), key_rule=rule)
        home = int(bucket_ids(pa.array([key]), 4, layout)[0])
        plain = [k for k in (f"k{i}" for i in range(40)) if int(bucket_ids(pa.array([k]), 4, layout)[0]) == home]
        assert key_rule_of(pa.array([*plain, key]), home, 4, LAYOUT) is rule
        assert key_rule_of(pa.array(plain), home, 4, LAYOUT) is None


def test_stored_keys_of_both_rules_are_refused() -> None:
    by_old = "a:1"  # no hash field in it: 0.15 hashes an empty list, 1, and 1.x the whole key
    assert homes_of(by_old)[KeyRule.HUDI_0_15] == 1
    by_new = next(
        k for k in (f"id:{i}" for i in range(99)) if homes_of(k)[KeyRule.HUDI_1] == 1 != homes_of(k)[KeyRule.HUDI_0_15]
    )
    assert homes_of(by_old)[KeyRule.HUDI_1] != 1
    with pytest.raises(TableCorruptError, match="releases") as caught:
        key_rule_of(pa.array([by_new, by_old]), 1, 4, LAYOUT)
    assert caught.value.culprit == by_old


def homes_of(key: str) -> dict[KeyRule, int]:
    return {
        rule: int(bucket_ids(pa.array([key]), 4, BucketLayout(4, fields=("id",), key_rule=rule))[0]) for rule in KeyRule
    }


def test_a_key_that_is_nowhere_right_is_named() -> None:
    with pytest.raises(TableCorruptError, match="where it does not belong with 4 buckets"):
        key_rule_of(pa.array([f"k{i}" for i in range(40)]), 0, 4, LAYOUT)


def test_the_count_a_table_was_written_with_is_found() -> None:
    keys = pa.array([f"k{i}" for i in range(400)])
    homes = bucket_ids(keys, 12, LAYOUT)
    samples = [(b, keys.filter(pa.array(homes == b))) for b in (1, 11)]
    assert np.gcd.reduce(hash_distances(samples, LAYOUT)) == 12
    assert np.gcd.reduce(hash_distances([(0, keys)], LAYOUT)) == 1, "any keys lie in the one bucket there is"
    assert len(hash_distances([(0, keys), (0, keys)], LAYOUT)) == len(hash_distances([(0, keys)], LAYOUT))
    assert not len(hash_distances([], LAYOUT))
