"""A consumer of a table's asset reads exactly what each commit changed: real upserts, real events, real reading."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import UsageError
from tests.builders import SCHEMA, make_table
from tests.dags.conftest import ROOT
from tests.dags.jobs import asset_events

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

Rows = dict[str, str]

JOB_WORDS = ("batch-id", "run-id", "checkpoints")
DAG_FILE = """
from airflow.sdk import DAG
from lakeindex.airflow import LakeIndexUpsertOperator

with DAG("{name}", schedule=None):
    LakeIndexUpsertOperator(
        task_id="upsert",
        table="{uri}",
        inputs="{{{{ dag_run.conf['input'] }}}}",
        batch_id="{{{{ dag_run.conf['batch'] }}}}",
        retries=0,
    )
"""


@dataclass
class Feed:
    """A table, the DAG that upserts into it, and what consumers of it are told."""

    table: LakeTable
    folder: Path
    name: str
    dag: Any
    seen: int = 0
    batches: list[Path] = field(default_factory=list)

    def upsert(self, **rows: str) -> Any:
        """A run of a DAG with a batch of keys and values."""
        path = self.folder / f"{len(self.batches)}.parquet"
        columns = [list(rows), ["d"] * len(rows), [len(self.batches)] * len(rows), list(rows.values())]
        pq.write_table(pa.table(columns, schema=SCHEMA), path)
        self.batches.append(path)
        return self.again(len(self.batches) - 1)

    def again(self, number: int) -> Any:
        """A run of the batch, as if its task were cleared."""
        run = self.dag.test(run_conf={"input": str(self.batches[number]), "batch": f"batch/{number}"})
        assert str(run.state) == "success"
        return run

    def events(self) -> list[Any]:
        """Those that no run of the consumer has taken yet."""
        found = [type("Event", (), {"extra": extra}) for extra in asset_events(self.name)]
        new, self.seen = found[self.seen :], len(found)
        return new


BOTH = pytest.mark.parametrize("feed", ["6", "9"], indirect=True)
"""Points in time are instants below version 8, and completion times from then on; the other tests take one of both."""
OLD = pytest.mark.parametrize("feed", ["6"], indirect=True)


@pytest.fixture
def feed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Feed:
    from airflow import settings
    from airflow.dag_processing.dagbag import DagBag
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    def submit(self: Any, *_: Any, **__: Any) -> None:
        words = self._application_args
        given = {name: words[words.index(f"--{name}") + 1] for name in ("table", "input", *JOB_WORDS)}
        where = {name.replace("-", "_"): given[name] for name in JOB_WORDS}
        open_table(given["table"]).upsert(given["input"], **where)  # as the job does, without a process of its own

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    name = f"trips_{uuid.uuid4().hex}"
    table = make_table(tmp_path / name, hoodie__write__table__version=getattr(request, "param", "9"))
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "one.py").write_text(DAG_FILE.format(name=name, uri=table.uri))
    monkeypatch.setattr(settings, "DAGS_FOLDER", str(tmp_path / "dags"))
    return Feed(table, tmp_path, name, DagBag(dag_folder=str(tmp_path / "dags")).dags[name])


def followed(copy: Rows, events: list[Any]) -> int:
    """Apply what events tell of to a copy of the table; how many rows changed."""
    from lakeindex.airflow.assets import told_commits

    changed = 0
    for commit in told_commits(events):
        for row in open_table(commit.uri).changes(since=commit.previous, until=commit.point).to_arrow().to_pylist():
            kind = row["_change_type"]
            changed += kind != "update_preimage"
            if kind == "delete":
                assert copy.pop(row["id"]) == row["v"]
            elif kind == "update_preimage":
                assert copy[row["id"]] == row["v"]
            else:
                copy[row["id"]] = row["v"]
    return changed


def rows(table: LakeTable) -> Rows:
    return {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}


@BOTH
def test_a_consumer_reads_exactly_what_each_event_tells_of(feed: Feed) -> None:
    copy: Rows = {}
    feed.upsert(a="1", b="1")
    assert followed(copy, feed.events()) == 2
    feed.upsert(b="2", c="1")  # several events for one run of the consumer, the second one of the same key
    feed.upsert(b="3")
    assert followed(copy, feed.events()) == 3
    assert copy == rows(feed.table) == {"a": "1", "b": "3", "c": "1"}
    extras = asset_events(feed.name)
    assert {one["uri"] for one in extras} == {feed.table.uri}
    ends = [one["completion_time"] or one["instant"] for one in extras]
    assert [one["previous"] for one in extras] == [None, *ends[:-1]]
    is_old = feed.table.properties["hoodie.table.version"] == "6"
    assert {one["completion_time"] is None for one in extras} == {is_old}


@OLD
def test_an_event_that_comes_twice_is_one_commit(feed: Feed) -> None:
    copy: Rows = {}
    feed.upsert(a="1")
    feed.upsert(a="2", b="1")
    feed.again(0)
    feed.again(1)
    events = feed.events()
    assert [event.extra["noop"] for event in events] == [False, False, True, True]
    assert followed(copy, events) == 3
    assert copy == rows(feed.table)


def test_a_write_without_an_event_is_not_taken_for_that_of_one(feed: Feed) -> None:
    feed.upsert(a="1")
    feed.table.upsert(pa.table([["z"], ["d"], [9], ["foreign"]], schema=SCHEMA), batch_id="other")
    feed.upsert(b="1")
    copy: Rows = {}
    assert followed(copy, feed.events()) == 2
    assert copy == {"a": "1", "b": "1"}


@BOTH
@pytest.mark.few(0)
def test_a_commit_that_was_rolled_back_has_no_changes(feed: Feed) -> None:
    feed.upsert(a="1")
    feed.upsert(a="2", b="1")
    feed.table.rollback(asset_events(feed.name)[-1]["instant"])
    feed.upsert(c="1")
    copy: Rows = {}
    assert followed(copy, feed.events()) == 2
    assert copy == rows(feed.table) == {"a": "1", "c": "1"}


@OLD
def test_a_run_that_changes_nothing_tells_nothing_and_neither_does_one_of_a_commit_that_is_gone(feed: Feed) -> None:
    from lakeindex.airflow.assets import announce_commit
    from lakeindex.airflow.dag_plan import DagPlan

    feed.upsert(a="1")
    feed.upsert()
    assert len(feed.events()) == 1
    plan = DagPlan(feed.name, feed.table.uri, "", "r", "b", ("x",))
    run = {"instant": "20200101000000000", "noop": True, "stages": []}
    assert announce_commit(plan, run, {})["instant"] == "20200101000000000"  # no outlet is asked for


def test_commits_are_told_in_the_order_in_which_they_were_completed() -> None:
    """The one that began first may end last; without completion times their instants are all there is."""
    from lakeindex.airflow.assets import told_commits

    def told(*commits: tuple[str, str | None]) -> list[str]:
        facts = [{"uri": "/t", "instant": i, "previous": None, "completion_time": end} for i, end in commits]
        return [
            one.instant for one in told_commits(type("Event", (), {"extra": {**f, "batch_id": "b"}}) for f in facts)
        ]

    slow, quick = ("20260101000000000", "20260101000009000"), ("20260101000001000", "20260101000002000")
    assert told(slow, quick) == told(quick, slow) == [quick[0], slow[0]]
    first, second = ("20260101000003000", None), ("20260101000004000", None)
    assert told(second, first) == [first[0], second[0]]
    assert told(slow, second, quick, first) == [quick[0], first[0], second[0], slow[0]]
    for short in ("20260101000001", "20260101000000"):
        assert told((short, None), ("20260101000000500", None)) == ["20260101000000500", short]


def test_each_commit_is_told_once_of_each_table() -> None:
    """Two tables may have commits of one instant; a task that was cleared tells of the same commit again."""
    from lakeindex.airflow.assets import told_commits

    def event(uri: str, instant: str, batch_id: str = "b") -> object:
        facts = {"uri": uri, "instant": instant, "previous": None, "completion_time": None, "batch_id": batch_id}
        return type("Event", (), {"extra": facts})

    one, two = "20260101000000000", "20260101000001000"
    events = [event("/t", two), event("/u", one), event("/t", one), event("/u", one), event("/t", two)]
    told = [(commit.uri, commit.instant) for commit in told_commits(events)]
    assert len(told_commits([event("s3://b/t", one), event("s3a://b/t", one), event("s3://b/u", one)])) == 2
    assert sorted(told) == [("/t", one), ("/t", two), ("/u", one)]
    assert told[-1] == ("/t", two)


def test_an_event_without_the_point_before_is_an_error_that_says_what_to_do() -> None:
    from lakeindex.airflow.assets import told_commits

    event = type("Event", (), {"extra": {"instant": "20200101000000000", "uri": "/t", "batch_id": "b"}})
    with pytest.raises(UsageError, match="the event of 20200101000000000 does not say") as raised:
        told_commits([event])
    assert "a point of your own" in (raised.value.hint or "")
    assert told_commits([type("Event", (), {"extra": {}})]) == ()
    again = type("Event", (), {"extra": {**event.extra, "previous": None, "completion_time": None, "noop": True}})
    for events in ([event, again], [again, event]):  # its task was cleared once it could read the table
        assert [commit.previous for commit in told_commits(events)] == [None]
    other = type("Event", (), {"extra": {**again.extra, "uri": "/u"}})
    with pytest.raises(UsageError, match="the event of 20200101000000000 does not say"):
        told_commits([event, other])  # of another table


@pytest.mark.few(0)
def test_the_example_dag_makes_a_copy_follow_its_table(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.definitions.asset import AssetUniqueKey
    from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor

    from lakeindex.airflow.assets import table_asset

    feed.upsert(a="1", b="1")
    feed.upsert(a="2")
    copy = make_table(f"{feed.table.uri}_copy")
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / f"{feed.name}.yaml").write_text(f"uri: {feed.table.uri}\n")
    monkeypatch.setenv("LAKEINDEX_TABLES", str(conf))
    consumer = DagBag(dag_folder=str(ROOT / "dags/example_consumer.py")).dags["example_consumer"]
    run: Callable[..., Any] = consumer.task_dict["apply_changes"].python_callable
    asset = table_asset(feed.name, feed.table.uri)

    def applied() -> dict[str, int]:
        events = {AssetUniqueKey.from_asset(asset): feed.events()}
        return run(triggering_asset_events=TriggeringAssetEventsAccessor(events))

    assert applied() == {"inserts": 2}
    assert rows(copy) == rows(feed.table)
    feed.table.delete(pa.table({"id": ["b"], "day": ["d"]}))  # it makes no event
    feed.upsert(a="3", c="1")
    feed.again(2)
    assert applied() == {"inserts": 1, "updates": 1, "deletes": 1, "combined": 1}
    assert rows(copy) == rows(feed.table) == {"a": "3", "c": "1"}
    feed.again(2)
    assert applied() == {}
