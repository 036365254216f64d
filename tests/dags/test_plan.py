"""A run's plan: arguments of the jobs, ids that are safe as folder names, values that survive XCom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.airflow.dag_plan import DagPlan, batch_of_run, make_plan
from lakeindex.airflow.files import is_there
from lakeindex.airflow.funnel import fates, funnel_text
from lakeindex.airflow.tables import TableConf
from lakeindex.errors import InputError, UsageError
from lakeindex.options.types import InputFormat
from lakeindex.pipeline import run_id_of
from lakeindex.stages.stage_input.inputs import find_inputs

TABLE = TableConf(
    "trips", "Trips", "/lake/trips", "/lake/.runs", options={"hoodie.index.bloom.fpp": "1e-4"}, max_quarantined=2
)
BATCH = "d/manual__2026-01-01T00:00:00+00:00"


def test_arguments_hold_everything_a_job_needs() -> None:
    params = {"index_type": "BLOOM", "max_quarantined": None, "operation": "DELETE", "force": True, "options": {"a": 1}}
    plan = make_plan(TABLE, params, ["x", "y"], batch_id=f"{BATCH}/4")
    words = plan.arguments()
    assert words[words.index("--table") + 1] == "/lake/trips"
    assert words[words.index("--batch-id") + 1] == "d/manual__2026-01-01T00:00:00+00:00/4"
    assert words[words.index("--max-quarantined") + 1] == "2"
    assert words[words.index("--operation") + 1] == "DELETE"
    assert [words[i + 1] for i, w in enumerate(words) if w == "--input"] == ["x", "y"]
    assert [words[i + 1] for i, w in enumerate(words) if w == "-o"] == [
        "a=1",
        "hoodie.index.bloom.fpp=1e-4",
        "hoodie.index.type=BLOOM",
    ]
    assert words[-1] == "--force"


def test_a_table_that_says_its_index_gets_no_option_for_it() -> None:
    plan = make_plan(TABLE, {"index_type": "as the table says", "max_quarantined": 0}, ["x"], batch_id=f"{BATCH}/-1")
    assert plan.options == (("hoodie.index.bloom.fpp", "1e-4"),)
    assert plan.max_quarantined == 0
    assert "--force" not in plan.arguments()


def test_a_plan_survives_xcom() -> None:
    plan = make_plan(TABLE, {"options": {"a": "b"}}, ["x", "y"], batch_id=f"{BATCH}/-1")
    assert DagPlan.from_xcom(json.loads(json.dumps(plan.to_xcom()))) == plan


def test_a_zero_is_said() -> None:
    """Who asks not to wait, or is the first instance of a mapped task, is not one that says nothing."""
    plan = make_plan(TABLE, {"lock_wait": 0}, ["x"], batch_id=f"{BATCH}/0")
    assert dict(plan.options)["lakeindex.lock.wait"] == "0"
    assert "lakeindex.lock.wait" not in dict(make_plan(TABLE, {}, ["x"], batch_id=f"{BATCH}/0").options)
    assert [batch_of_run("d", "r", index) for index in (None, -1, 0, 1)] == ["d/r/-1", "d/r/-1", "d/r/0", "d/r/1"]


def test_the_run_wins_over_the_table_in_how_it_is_executed() -> None:
    assert not make_plan(TABLE, {}, ["x"], batch_id=f"{BATCH}/-1").is_single
    assert make_plan(TABLE, {"execution": "single"}, ["x"], batch_id=f"{BATCH}/-1").is_single
    single = replace(TABLE, execution="single")
    assert make_plan(single, {"execution": "as the table says"}, ["x"], batch_id=f"{BATCH}/-1").is_single
    assert not make_plan(single, {"execution": "staged"}, ["x"], batch_id=f"{BATCH}/-1").is_single


def test_a_run_without_input_is_refused() -> None:
    with pytest.raises(UsageError, match="trips was given no input"):
        make_plan(TABLE, {}, [], batch_id=f"{BATCH}/-1")


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_run_folders_are_plain_names_and_never_shared(one: str, other: str) -> None:
    first, second = run_id_of(one), run_id_of(other)
    assert first.isascii()
    assert len(first) <= 160
    assert not set("/:+% ") & set(first)
    assert (first == second) == (one == other)


def test_funnel_shows_every_stage_and_what_was_dropped() -> None:
    stage = {
        "name": "bloom_check",
        "rows_in": 1000,
        "rows_out": 1000,
        "pairs_in": 4000,
        "pairs_out": 1000,
        "seconds": 1.25,
    }
    all_dropped = {"name": "index_lookup", "pairs_in": 9, "pairs_out": 0}
    none = {"name": "stage_input", "rows_in": 3, "rows_out": 2, "pairs_in": 0, "pairs_out": 0}
    header, bloom, lookup, staged = funnel_text([stage, all_dropped, none]).splitlines()
    assert "100.00 %" in lookup
    assert header.split()[:2] == ["stage", "rows_in"]
    assert bloom.split()[0] == "bloom_check"
    assert "75.00 %" in bloom
    assert staged.endswith("-")
    assert len({len(header), len(bloom), len(staged)}) == 1


def test_fates_are_counts_only() -> None:
    assert fates({"rows_in": 3, "inserts": 2, "combined": 1, "instant": "20260101000000000"})["inserts"] == 2
    assert set(fates({}).values()) == {0}


@pytest.mark.parametrize(
    ("place", "there", "found"),
    [
        ("in/a.csv", ["in/a.csv"], True),
        ("in/*.csv", ["in/a.csv"], True),
        ("in/*.csv", ["in/a.txt"], False),
        ("in/a[1].csv", ["in/a[1].csv"], True),
        ("in", ["in/a.csv"], True),
        ("in", ["in/day=1/a.csv"], True),
        ("in", ["in/"], False),
        ("in", ["in/_SUCCESS", "in/.a.csv.crc"], False),
        ("in", ["in/_temporary/0/a.csv"], False),
        ("in", ["other/a.csv"], False),
        ("", ["a.csv"], True),
    ],
)
def test_an_input_is_there_when_a_job_would_find_files(
    tmp_path: Path, place: str, there: list[str], found: bool
) -> None:
    """Not while another program is still writing it, nor when all of it was taken away."""
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).write_text("id\n1\n")
    entry = f"{tmp_path}/{place}".rstrip("/")
    assert is_there("table:feed"), "which Spark alone can tell"
    assert is_there(entry) is found
    if found:
        assert find_inputs((entry,), InputFormat.AUTO)
    else:
        with pytest.raises(InputError):
            find_inputs((entry,), InputFormat.AUTO)
