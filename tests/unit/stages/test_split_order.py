"""Splits whose keys no other split holds are staged as they are keyed; how the input was cut never shows in what is staged."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.errors import InputError
from lakeindex.model import Operation
from lakeindex.options.types import InputFormat
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.stages.stage_input import inputs
from lakeindex.stages.stage_input import stage as split_order
from lakeindex.stages.stage_input.stage import splits_apart, stage_input
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write.keys.key_generators import KeySpec, PartitionKind
from lakeindex.write.keys.time_partitions import TimeOptions
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table
from tests.strategies import examples
from tests.unit.stages.test_inputs import write
from tests.unit.tasks.test_memory import content

KEYS = KeySpec(("id",), (("day", PartitionKind.SIMPLE),))
BY_TIME = KeySpec(("id",), (("day", PartitionKind.TIMESTAMP),), time_options=TimeOptions("DATE_STRING", "%Y-%m-%d"))


@pytest.fixture(autouse=True)
def small_splits_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_order, "_LEAST_BYTES", 1)


def apart(
    folder: Path, tables: Sequence[pa.Table], keys: KeySpec = KEYS, *, is_global: bool = False, **how: Any
) -> list[int]:
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet", **how)
    files = inputs.find_inputs((str(folder),), InputFormat.AUTO)
    splits = inputs.split_inputs(files, InputFormat.AUTO)
    return sorted(splits_apart(splits, keys, InputFormat.AUTO, is_global=is_global))


def rows(ids: Sequence[object], days: Sequence[object] | str = "x") -> pa.Table:
    return pa.table({"id": ids, "day": [days] * len(ids) if isinstance(days, str) else days})


@pytest.mark.parametrize(
    ("tables", "expected", "of_global"),
    [
        ([rows(["a", "c"]), rows(["d", "e"])], [0, 1], [0, 1]),
        ([rows(["d", "e"]), rows(["c", "a"])], [0, 1], [0, 1]),
        ([rows(["a", "c"]), rows(["c", "d"]), rows(["e"])], [2], [2]),
        ([rows(["a", "z"]), rows(["b"]), rows(["c"])], [], []),
        ([rows(["a"]), rows(["a"])], [], []),
        ([rows(["a", "c"], "x"), rows(["b", "d"], "y")], [0, 1], []),
        # a day that two splits share, keys that grow; and keys that do not
        ([rows(["a", "b"], ["x", "y"]), rows(["c", "d"], ["y", "z"])], [0, 1], [0, 1]),
        ([rows(["a", "d"], ["x", "y"]), rows(["c", "e"], ["y", "z"])], [], []),
        # each split has rows of both days: every one would be a chunk a day
        ([rows(["a", "b"], ["x", "y"]), rows(["c", "d"], ["x", "y"])], [], [0, 1]),
        ([rows([10, 40]), rows([41, 99])], [0, 1], [0, 1]),
        ([rows([1, 9]), rows([100, 120])], [], []),
        ([rows([5, 40]), rows([41, 99])], [], []),
        ([rows([-9, -1]), rows([1, 9])], [], []),
        ([rows(["a"]), rows([10])], [0, 1], [0, 1]),
        ([rows(["a"], [1]), rows(["b"], ["x"])], [], [0, 1]),
        ([rows([1.5]), rows([2.5])], [], []),
        ([rows(["a", None]), rows(["d", "e"])], [], []),
        ([rows(["a"], [None]), rows(["d"], ["x"])], [], [0, 1]),
        ([rows(["a"]), rows([]), rows(["b"])], [0, 2], [0, 2]),
    ],
)
def test_splits_are_apart_by_the_bounds_in_their_footers(
    tmp_path: Path, tables: list[pa.Table], expected: list[int], of_global: list[int]
):
    assert apart(tmp_path, tables) == expected
    assert apart(tmp_path, tables, is_global=True) == of_global


def test_days_may_be_dates(tmp_path: Path):
    days = [dt.date(2026, 11, n) for n in (9, 10)]
    assert apart(tmp_path, [rows(["a", "b"], [day, day]) for day in days]) == [0, 1]


def test_row_groups_of_one_file_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inputs, "SPLIT_BYTES", 1)
    assert apart(tmp_path, [rows(["a", "b", "c", "c"])], row_group_size=1) == [0, 1]


@pytest.mark.parametrize(
    ("keys", "how"),
    [(BY_TIME, {}), (KeySpec(("no such column",)), {}), (KEYS, {"write_statistics": False})],
)
def test_without_bounds_nothing_is_apart(tmp_path: Path, keys: KeySpec, how: dict[str, bool]):
    assert apart(tmp_path, [rows(["a"]), rows(["b"])], keys, **how) == []


def test_text_files_have_no_bounds(tmp_path: Path):
    for number in range(2):
        write(tmp_path / f"{number}.csv", [Row(f"k{number}", "x", 1, "v")], "csv")
    assert apart(tmp_path, []) == []


def test_small_splits_are_not_staged_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    large = rows([f"k{n:06d}" for n in range(1000)])
    monkeypatch.setattr(split_order, "_LEAST_BYTES", 1200)
    assert apart(tmp_path, [rows(["a"]), large]) == [1]


def test_a_footer_that_cannot_be_read_names_the_file(tmp_path: Path):
    (tmp_path / "9.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError, match=r"9\.parquet"):
        apart(tmp_path, [rows(["a"])])


def staged(table: LakeTable, path: Path) -> tuple[Manifest, RunSpec]:
    spec = RunSpec(table.uri, f"{table.uri}.runs", f"r{time.time_ns()}", "b", Operation.UPSERT, (str(path),), (), 1000)
    return stage_input(spec, open_for_write(spec.table_uri, spec.config).facts, LocalRunner(1)), spec


def unscattered(manifest: Manifest) -> list[str]:
    return sorted(
        {Path(part.path).name.rpartition("-")[0] for part in manifest.parts("staged") if "/split-" in part.path}
    )


def test_sorted_exports_are_staged_unscattered_and_only_the_rest_is_joined(tmp_path: Path):
    folder = tmp_path / "in"
    folder.mkdir()
    bad = Row("", "x", 1, "no key")
    for number, keys in enumerate([range(30, 40), range(10), range(20, 30), [5, 41, 8, 42]]):
        some = [Row(f"k{n:02d}", "x", number, "v") for n in keys] + ([bad] if number == 2 else [])
        write(folder / f"{number}.parquet", some, "parquet")
    table = make_table(tmp_path / "t")
    manifest, spec = staged(table, folder)
    # the empty key of the third is its lowest: it reaches over the others, and is scattered
    assert unscattered(manifest) == []
    write(folder / "2.parquet", [Row(f"k{n}", "x", 2, "v") for n in range(50, 60)], "parquet")
    manifest, spec = staged(table, folder)
    assert unscattered(manifest) == ["split-00002"]
    found = content(manifest, spec)
    assert [r["_li_key"] for r in found["rows"]] == sorted(
        {f"k{n:02d}" for n in [*range(10), *range(30, 43), *range(50, 60)]} - {"k40"}
    )
    assert {r["ts"] for r in found["rows"] if r["_li_key"] in ("k05", "k08")} == {3}
    assert not [o for o in run_folder(spec).store.list(spec.run_id) if "/pieces/" in o.path]


MET = [Row("a", "x", 1, "b,v:c")], [Row("a,v:b", "x", 2, "c")]
"""Nothing in a named key is escaped: both are id:a,v:b,v:c."""


@pytest.mark.parametrize(
    ("files", "keys", "expected"),
    [
        (MET, ("id", "v"), [0, 1]),
        # beside rows that are scattered, before and behind its own
        ((MET[0], [*MET[1], Row("c", "x", 0, "")], [Row("b", "x", 0, "")]), ("id", "v"), [0]),
        ((MET[0], [Row("a!", "x", 0, ""), *MET[1]], [Row("a$", "x", 0, "")]), ("id", "v"), [0]),
        # an empty partition value goes to the default partition, and so does its name
        (([Row("a", "", 1, "old")], [Row("a", "__HIVE_DEFAULT_PARTITION__", 2, "new")]), ("id",), [0, 1]),
    ],
)
def test_keys_that_meet_in_spite_of_the_footers_are_joined(
    tmp_path: Path, files: Sequence[list[Row]], keys: tuple[str, ...], expected: list[int]
):
    assert apart(tmp_path, [batch_of(some) for some in files], KeySpec(keys, KEYS.partition_fields)) == expected
    folder = tmp_path / "in"
    folder.mkdir()
    for number, some in enumerate(files):
        write(folder / f"{number}.parquet", some, "parquet")
    manifest, run = staged(make_table(tmp_path / "t", keys=keys), folder)
    assert unscattered(manifest) == []
    assert [r["ts"] for r in content(manifest, run)["rows"] if r["ts"]] == [2]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.lists(
                st.builds(
                    Row, st.integers(0, 40).map("k{:02d}".format), st.sampled_from("xyz"), st.integers(0, 2),
                    st.sampled_from("vw"), st.booleans(),
                ),
                min_size=1,
                max_size=12,
            ),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)  # fmt: skip
def test_a_batch_in_several_files_is_staged_as_in_one(files: list[tuple[list[Row], bool]], by_key: bool):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        rows_in_order: list[Row] = []
        ranged = sorted((r for some, _ in files for r in some), key=lambda r: (r.day, r.id)) if by_key else []
        start = 0
        for number, (some, _) in enumerate(files):
            mine = ranged[start : start + len(some)] if by_key else some
            start += len(some)
            rows_in_order += mine
            write(folder / "in" / f"{number}.parquet", mine, "parquet")
        write(folder / "whole.parquet", rows_in_order, "parquet")
        table = make_table(f"{name}/t")
        assert content(*staged(table, folder / "in")) == content(*staged(table, folder / "whole.parquet"))


def test_a_batch_of_sorted_files_is_upserted_as_the_oracle_does(tmp_path: Path):
    table, oracle = make_table(tmp_path / "t"), Oracle()
    for ts in range(2):
        folder = tmp_path / f"in{ts}"
        folder.mkdir()
        batch = [Row(f"k{n:03d}", f"d{n // 20}", ts, "v", n % 7 == ts) for n in range(ts * 10, 100)]
        for number in range(4):
            write(folder / f"{number}.parquet", batch[number * 25 : number * 25 + 25], "parquet")
        assert counts_of(table.upsert(str(folder))) == oracle.apply(batch)
    assert content_of(table) == oracle.content()
