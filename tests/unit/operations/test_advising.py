"""The adviser: its counts against what runs do, its warnings, its bounds."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import InputError, SchemaMismatchError
from lakeindex.model import IndexType
from lakeindex.operations import advise as advising_sample
from lakeindex.operations.advise import Advice, TypeAdvice, model_error
from lakeindex.operations.cluster import cluster_table
from lakeindex.operations.cluster_plan import Asked
from lakeindex.options.parse import parse_options
from lakeindex.run.summary import Estimate, RunSummary
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table
from tests.golden import made_once

ROWS, FILES = 2_000, 10
SMALL = {
    "hoodie.parquet.max.file.size": str(ROWS // FILES * 100),
    "hoodie.copyonwrite.record.size.estimate": "100",
    "hoodie.parquet.small.file.limit": "0",
}


def key(number: int, *, random: bool) -> str:
    return hashlib.md5(str(number).encode()).hexdigest() if random else f"k{number:06d}"


def rows(numbers: range, *, random: bool = False, ts: int = 1) -> list[Row]:
    return [Row(key(n, random=random), "x" if n % 2 else "y", ts, f"v{n}") for n in numbers]


@made_once
def table_of(folder: Path, *, random: bool = False, **options: str) -> LakeTable:
    """Two partitions of five files of 200 rows; files of random keys overlap, as each is of another commit."""
    table = make_table(folder / "t", **options)
    parts = [range(n, ROWS, 5) for n in range(5)] if random else [range(ROWS)]
    for part in parts:
        table.upsert(batch_of(rows(part, random=random)), options=SMALL)
    return table


def of(advice: Advice, kind: str) -> TypeAdvice:
    return next(one for one in advice.types if one.index_type == kind)


@pytest.mark.parametrize("random", [False, True])
def test_counts_are_those_of_a_run(tmp_path: Path, random: bool):
    table = table_of(tmp_path, random=random)
    batch = batch_of(rows(range(ROWS - 300, ROWS + 100), random=random, ts=2))
    advice = table.advise(batch)
    summary = table.upsert(batch, options=SMALL)
    stages = {one.name: one for one in summary.stages}
    bloom = of(advice, "BLOOM")
    assert (advice.keys, advice.sampled_rows, advice.partitions) == (400, 400, 2)
    assert bloom.comparisons == stages["index_lookup"].pairs_in
    assert bloom.after_ranges == stages["index_lookup"].pairs_out
    assert bloom.after_filters == pytest.approx(stages["bloom_check"].pairs_out, abs=1)
    assert advice.updates == pytest.approx(summary.updates / 400, abs=0.005)
    assert bloom.files_opened == bloom.files_rewritten == summary.files_rewritten
    assert of(advice, "SIMPLE").files_opened == FILES
    assert of(advice, "SIMPLE").after_ranges == 400 * FILES / 2
    assert of(advice, "GLOBAL_SIMPLE").comparisons == 400 * FILES
    assert {one.index_type for one in advice.types} == set(IndexType)
    assert all(one.seconds == pytest.approx(one.lookup_seconds + one.rewrite_seconds, abs=2e-4) for one in advice.types)
    assert any("key ranges keep" in warning for warning in advice.warnings) is random


def test_a_sample_stands_for_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = table_of(tmp_path)
    batch = batch_of(rows(range(ROWS), ts=2))
    whole = table.advise(batch)
    monkeypatch.setattr(advising_sample, "SAMPLED_ROWS", 100)
    monkeypatch.setattr(advising_sample, "SAMPLED_FILTERS", 3)
    part = table.advise(batch)
    assert (part.sampled_rows, part.batch_rows, part.keys) == (100, ROWS, ROWS)
    assert part.updates == pytest.approx(whole.updates, abs=0.05)
    for kind in ("BLOOM", "SIMPLE", "BUCKET", "RECORD_INDEX"):
        assert of(part, kind).after_ranges == pytest.approx(of(whole, kind).after_ranges, rel=0.1)
        assert of(part, kind).files_opened == pytest.approx(of(whole, kind).files_opened, abs=1)


def test_few_updates_in_a_sample_are_many_in_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One key in fifty of the batch is in the table: a sample has them in few files, the batch in all."""
    table = table_of(tmp_path, random=True)
    batch = batch_of(rows(range(ROWS - 100, ROWS + 4900), random=True, ts=2))
    whole = table.advise(batch)
    monkeypatch.setattr(advising_sample, "SAMPLED_ROWS", 250)
    part = table.advise(batch)
    for kind in ("BLOOM", "SIMPLE"):
        assert of(whole, kind).files_rewritten == FILES
        assert of(part, kind).files_rewritten == pytest.approx(FILES, abs=1)
    assert of(part, "BLOOM").files_opened == pytest.approx(FILES, abs=1)


def test_footers_are_bounded_where_they_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = table_of(tmp_path, hoodie__index__type="SIMPLE")
    monkeypatch.setattr(advising_sample, "SAMPLED_FOOTERS", 4)
    monkeypatch.setattr(advising_sample, "_SAMPLED_LAYOUTS", 2)
    advice = table.advise(batch_of(rows(range(ROWS), ts=2)))
    assert 4 <= advice.footers_sampled <= 6
    assert of(advice, "SIMPLE").files_opened == FILES
    assert of(advice, "BLOOM").files_opened == pytest.approx(FILES, abs=3)
    assert any("footers were looked at" in warning for warning in advice.warnings)


def test_footers_that_only_the_sample_read_are_requests_of_every_type(tmp_path: Path):
    """In the partitions of the batch as in the whole table: the next run reads them, too, unless they are cached."""
    batch = batch_of(rows(range(100), ts=2))
    requests = {}
    for cached in (False, True):
        table = table_of(tmp_path / str(cached), hoodie__index__type="BLOOM" if cached else "SIMPLE")
        advice = table.advise(batch)
        requests[cached] = [
            of(advice, kind).requests - of(advice, kind).files_opened for kind in ("BLOOM", "GLOBAL_BLOOM")
        ]
    assert requests[False] == [one + FILES * 1.5 for one in requests[True]]


def test_nothing_is_written(tmp_path: Path):
    table = table_of(tmp_path)
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    table.advise(batch_of(rows(range(100))))
    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_full_filters_are_named(tmp_path: Path):
    options = {
        **SMALL,
        "lakeindex.bloom.sizing": "fixed",
        "hoodie.index.bloom.num_entries": "20",
        "hoodie.bloom.index.filter.type": "SIMPLE",
    }
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(rows(range(ROWS))), options=options)
    advice = table.advise(batch_of(rows(range(ROWS), ts=2)))
    assert any("too full" in warning for warning in advice.warnings)
    assert of(advice, "BLOOM").after_filters >= of(advice, "BLOOM").after_ranges * 0.9


@pytest.mark.parametrize(("size", "what"), [("1000", "too few"), ("100000000", "too many"), ("20000", None)])
def test_bucket_counts_that_are_off_are_named(tmp_path: Path, size: str, what: str | None):
    table = table_of(tmp_path, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="4")
    advice = table.advise(batch_of(rows(range(100), ts=2)), options={"hoodie.parquet.max.file.size": size})
    said = [warning for warning in advice.warnings if "bucket count is off" in warning]
    assert (what is None) is (said == [])
    assert all(what in one and "lakeindex rescale" in one for one in said if what)
    assert of(advice, "BUCKET").files_opened <= 8


def test_recommends_the_cheapest_of_those_that_mean_the_same(tmp_path: Path):
    table = table_of(tmp_path)
    advice = table.advise(batch_of(rows(range(50), ts=2)))
    fitting = [one for one in advice.types if not one.is_global and one.measured]
    cheapest = min(fitting, key=lambda one: one.seconds)
    assert advice.recommended in {"BLOOM", cheapest.index_type}
    assert advice.recommended in advice.reason
    unique = table_of(tmp_path / "g", hoodie__index__type="GLOBAL_SIMPLE").advise(batch_of(rows(range(50), ts=2)))
    assert of(unique, unique.recommended).is_global
    assert not any("was not scanned" in warning for warning in unique.warnings)
    assert any("was not scanned" in warning for warning in advice.warnings)


def test_an_empty_table_keeps_its_index(tmp_path: Path):
    advice = make_table(tmp_path / "t", hoodie__index__type="SIMPLE").advise(batch_of(rows(range(10))))
    assert (advice.recommended, advice.updates, advice.files) == ("SIMPLE", 0.0, 0)
    assert "empty" in advice.reason
    empty = table_of(tmp_path / "e").advise(batch_of([]))
    assert (empty.keys, of(empty, "BLOOM").files_opened) == (0, 0)


def test_batches_in_files(tmp_path: Path):
    table = table_of(tmp_path)
    batch = batch_of(rows(range(100), ts=2))
    folder = tmp_path / "in"
    folder.mkdir()
    for part in range(20):
        pq.write_table(batch.slice(part * 5, 5), folder / f"{part:02d}.parquet")
    advice = table.advise(str(folder))
    assert (advice.batch_rows, advice.sampled_rows) == (100, 40)
    assert advice.keys == pytest.approx(100, abs=3)
    (tmp_path / "b.csv").write_text("id,day,ts,v\nk000001,x,2,a\nk000002,y,2,b\n")
    assert table.advise(tmp_path / "b.csv").keys == 2
    with pytest.raises(InputError, match="no input"):
        table.advise(tmp_path / "none.parquet")
    with pytest.raises(SchemaMismatchError, match="lacks column 'id'"):
        table.advise(pa.table({"day": ["x"]}))


def test_error_of_the_last_runs(tmp_path: Path):
    root = tmp_path / "runs"
    for number, said in enumerate([1.5, 0.5, None]):
        estimate = None if said is None else Estimate(said, 1.0, 100, 200)
        summary = RunSummary(None, "b", f"r{number}", "UPSERT", noop=True, estimate=estimate)
        (root / f"r{number}").mkdir(parents=True)
        (root / f"r{number}" / "summary.json").write_text(summary.to_json())
    (root / "broken").mkdir()
    (root / "broken" / "summary.json").write_text("{")
    found = model_error(str(root))
    assert (found.runs, found.seconds, found.bytes_read) == (2, 0.5, 0.5)
    assert model_error(str(tmp_path / "none")).seconds is None
    for number in range(12):  # the newest ten are those that are off by 2 to 11
        summary = RunSummary(None, "b", "r", "UPSERT", noop=True, estimate=Estimate(1.0 + number, 1.0, 100, 200))
        (tmp_path / "many" / f"r{number}").mkdir(parents=True)
        path = tmp_path / "many" / f"r{number}" / "summary.json"
        path.write_text(summary.to_json())
        os.utime(path, (number, number))
    found = model_error(str(tmp_path / "many"))
    assert (found.runs, found.seconds) == (10, 6.5)


def test_every_run_keeps_the_estimate_beside_the_actual(tmp_path: Path):
    table = table_of(tmp_path)
    summary = table.upsert(batch_of(rows(range(50), ts=2)), options=SMALL)
    lookup = [s for s in summary.stages if s.name in {"index_lookup", "bloom_check", "verify_keys"}]
    assert summary.estimate is not None
    assert summary.estimate.actual_seconds == pytest.approx(sum(s.seconds for s in lookup), abs=1e-3)
    assert summary.estimate.actual_bytes_read == sum(s.bytes_read for s in lookup)
    assert summary.estimate.seconds > 0
    assert RunSummary.from_json(summary.to_json()).estimate == summary.estimate
    assert table.advise(batch_of(rows(range(50), ts=2))).model.runs == 1  # the first run had nothing to look up


FEW, MANY = "lakeindex.clustering.least.files", "lakeindex.clustering.least.candidates"
PLAN = "hoodie.clustering.plan.strategy"


@pytest.mark.parametrize(
    ("options", "pays"),
    [
        ({FEW: "5", MANY: "100"}, True),
        ({FEW: "5", MANY: "100", f"{PLAN}.small.file.limit": "1"}, False),
        ({FEW: "5", MANY: "100", f"{PLAN}.target.file.max.bytes": "1"}, False),
        ({FEW: "6", MANY: "100"}, False),
        ({FEW: "6", MANY: "2"}, True),
        ({FEW: "6", MANY: "6"}, False),
        ({FEW: "6", MANY: "2", f"{PLAN}.sort.columns": "ts"}, False),
        ({FEW: "6", MANY: "2", "hoodie.layout.optimize.strategy": "none"}, False),
    ],
)
def test_clustering_is_advised_where_maintenance_would_cluster(tmp_path: Path, options: dict[str, str], pays: bool):
    table = table_of(tmp_path, random=True)
    advice = table.advise(batch_of(rows(range(ROWS), random=True, ts=2)), options=options)
    assert any("`lakeindex cluster`" in warning for warning in advice.warnings) is pays
    asked = Asked(by_thresholds=True)
    done = cluster_table(table.uri, LocalRunner(1), asked, config=parse_options(options), dry_run=True)
    assert (done.files_before > 0) is pays


def test_the_files_a_key_are_those_of_all_files_and_not_of_the_footers_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = table_of(tmp_path, random=True, hoodie__index__type="SIMPLE")
    monkeypatch.setattr(advising_sample, "SAMPLED_FOOTERS", 4)
    monkeypatch.setattr(advising_sample, "_SAMPLED_LAYOUTS", 2)
    advice = table.advise(batch_of(rows(range(ROWS), random=True, ts=2)), options={MANY: "4"})
    assert advice.footers_sampled < FILES
    (said,) = [warning for warning in advice.warnings if "files hold a key" in warning]
    assert float(said.removeprefix("the key ranges of ").split()[0]) == pytest.approx(FILES / 2, abs=0.5)
