"""Feeds of changes that are applied to another table: once, in order, with deletes and moves."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from lakeindex.api.table import LakeTable
from lakeindex.errors import FencedError, InputError, SchemaMismatchError, UsageError
from lakeindex.operations.changes import marked
from lakeindex.run.feeds import FEED_KEY
from tests.builders import SCHEMA, Row, batch_of, content_of, make_table
from tests.meanwhile import OVERTAKES, Meanwhile
from tests.scheduling import some_of


def rows(table: LakeTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan(columns=["id", "day", "ts", "v"]).to_arrow().to_pylist())


def pair(folder: Path, source: str = "BLOOM", target: str = "BLOOM", **options: str) -> tuple[LakeTable, LakeTable]:
    return (
        make_table(folder / "src", hoodie__index__type=source, **options),
        make_table(folder / "dst", hoodie__index__type=target, **options),
    )


def upsert(table: LakeTable, *given: Row) -> None:
    table.upsert(batch_of(given))


FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_copy_follows_its_source(tmp_path: Path, version: str) -> None:
    src, dst = pair(tmp_path, hoodie__write__table__version=version)
    upsert(src, *FIRST)
    first = dst.apply(src.changes())
    assert (first.rows_in, first.inserts) == (3, 3)
    upsert(src, Row("a", "x", 2, "2"), Row("d", "y", 2, "2"))
    src.delete(batch_of([FIRST[1]]).select(["id", "day"]))
    feed = src.changes(since=dst.applied_until(src.uri))
    done = dst.apply(feed)
    assert (done.rows_in, done.inserts, done.updates, done.deletes, done.combined) == (4, 1, 1, 1, 1)
    assert rows(dst) == rows(src)
    again = dst.apply(feed)
    assert again.noop
    assert (again.instant, again.inserts, again.updates, again.deletes) == (done.instant, 1, 1, 1)
    assert len(dst.history()) == 2
    assert dst.check().ok


@pytest.mark.parametrize(
    ("source", "target"),
    [("GLOBAL_SIMPLE", "BLOOM"), ("BLOOM", "GLOBAL_BLOOM"), ("GLOBAL_BLOOM", "GLOBAL_SIMPLE"), ("BLOOM", "SIMPLE")],
)
def test_a_row_that_moves_leaves_the_partition_where_it_was(tmp_path: Path, source: str, target: str) -> None:
    """Also where the old row has the greater ordering value: it was deleted, and its key came again elsewhere."""
    src, dst = pair(tmp_path, source, target)
    upsert(src, *FIRST, Row("k", "x", 7, "7"))
    dst.apply(src.changes())
    upsert(src, Row("a", "y", 2, "2"))
    if source == "BLOOM":
        src.delete(batch_of([FIRST[0], Row("k", "x", 0, None)]).select(["id", "day"]))
        upsert(src, Row("k", "y", 3, "3"))
    done = dst.apply(src.changes(since=dst.applied_until(src.uri)))
    assert done.rows_in == done.combined + done.inserts + done.updates + done.deletes + done.moved + done.ignored
    assert rows(dst) == rows(src)


@pytest.mark.parametrize("target", ["GLOBAL_BLOOM", "of one partition", "with both as key", "BLOOM"])
def test_rows_of_two_partitions_with_one_key_do_not_become_one(tmp_path: Path, target: str) -> None:
    """A key is unique within a partition of the source only, and the copy has place for one row of it."""
    src = make_table(tmp_path / "src")
    upsert(src, Row("a", "x", 1, "1"), Row("a", "y", 2, "1"), Row("b", "x", 1, "1"))
    if "BLOOM" in target:
        dst = make_table(tmp_path / "dst", hoodie__index__type=target)
    else:
        dst = make_table(tmp_path / "dst", partitions=(), keys=("id", "day") if "both" in target else ("id",))
    if target in {"GLOBAL_BLOOM", "of one partition"}:
        with pytest.raises(InputError, match=r"record key '(id:)?a' in several partitions of .*src") as caught:
            dst.apply(src.changes())
        assert caught.value.culprit == "a"
        assert "key columns id,day" in str(caught.value.hint)
        src.delete(batch_of([Row("a", "x", 3, "1")]).select(["id", "day"]))
    dst.apply(src.changes())
    assert rows(dst) == rows(src)


OF_ONE_PARTITION = {"partitions": ()}
COPIES = {
    "of a global index": {"hoodie__index__type": "GLOBAL_BLOOM"},
    "of a record index": {"hoodie__index__type": "RECORD_INDEX"},
    "of one partition": OF_ONE_PARTITION,
    "of buckets": {**OF_ONE_PARTITION, "hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "2"},
    "of virtual keys": {**OF_ONE_PARTITION, "hoodie__index__type": "SIMPLE", "hoodie__populate__meta__fields": "false"},
    "by another column": {"partitions": ("v",)},
}


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.few(3)
def test_a_row_of_another_partition_is_not_taken_for_the_one_that_an_earlier_feed_brought(
    tmp_path: Path, copy: str
) -> None:
    """Unless the feed says that the one before is gone; and a delete takes the row of its partition alone."""
    src = make_table(tmp_path / "src")
    dst = make_table(tmp_path / "dst", **COPIES[copy])
    upsert(src, Row("a", "x", 1, "1"), Row("b", "x", 1, "1"))
    dst.apply(src.changes())
    before = rows(dst)
    upsert(src, Row("a", "y", 2, "1"), Row("b", "x", 2, "1"))
    late = src.changes(since=dst.applied_until(src.uri))
    for force in (False, True):
        with pytest.raises(
            InputError, match=r"record key '(id:)?a' in partition 'y', .*of partition 'x', of .*src"
        ) as no:
            dst.apply(late, force=force)
        assert "key columns id,day" in str(no.value.hint)
        assert rows(dst) == before
    cured = make_table(tmp_path / "cured", partitions=(), keys=("id", "day"))
    cured.apply(src.changes())
    assert rows(cured) == rows(src)
    src.delete(batch_of([Row("a", "x", 0, None)]).select(["id", "day"]))
    dst.apply(src.changes(since=dst.applied_until(src.uri)))
    assert rows(dst) == rows(src)
    since = dst.applied_until(src.uri)
    upsert(src, Row("b", "x", 3, "1"), Row("a", "y", 3, "1"))
    src.delete(batch_of([Row("b", "x", 0, None)]).select(["id", "day"]))
    upsert(dst, Row("b", "z", 9, "1"))  # another's row, which the source never had
    done = dst.apply(src.changes(since=since))
    assert (done.deletes, done.ignored) == (0, 1)
    assert rows(dst) == [("a", "y", 3, "1"), ("b", "z", 9, "1")]


@pytest.mark.parametrize("pieces", ["one", "several"])
def test_what_moved_is_told_however_the_rows_of_a_feed_are_divided(tmp_path: Path, pieces: str) -> None:
    """The row that goes and the one that comes may be of two pieces of the batch, and one of them of a third."""
    src, dst = pair(tmp_path, target="GLOBAL_BLOOM")
    keys = [f"k{number:04}" for number in range(400)]
    upsert(src, *(Row(key, "x", 1, "1") for key in keys))
    dst.apply(src.changes())
    upsert(src, *(Row(key, "y", 2, "2") for key in keys[::2]))
    src.delete(batch_of([Row(key, "x", 0, None) for key in keys[::2]]).select(["id", "day"]))
    feed = src.changes(since=dst.applied_until(src.uri)).to_arrow()
    order = pa.array(list(range(0, feed.num_rows, 2)) + list(range(1, feed.num_rows, 2)))
    files = [tmp_path / f"feed{number}.parquet" for number in range(3 if pieces == "several" else 1)]
    each = -(-feed.num_rows // len(files))
    for number, path in enumerate(files):
        pq.write_table(feed.take(order).slice(number * each, each), path)
    done = dst.apply(files)
    assert done.moved == len(keys) // 2
    assert rows(dst) == rows(src)


def test_paths_of_a_source_by_time_and_not_its_columns_tell_its_partitions(tmp_path: Path) -> None:
    """Of a day one key has one row, whose time may change; and of two days it has two."""
    by_day = {
        "hoodie__table__keygenerator__type": "TIMESTAMP",
        "hoodie__keygen__timebased__timestamp__type": "EPOCHMILLISECONDS",
        "hoodie__keygen__timebased__output__dateformat": "yyyyMMdd",
    }
    src = make_table(tmp_path / "src", partitions=("ts",), **by_day)
    dst = make_table(tmp_path / "dst", partitions=(), hoodie__index__type="SIMPLE")
    upsert(src, Row("a", "x", 1, "1"))
    dst.apply(src.changes())
    upsert(src, Row("a", "x", 2, "2"))
    assert dst.apply(src.changes(since=dst.applied_until(src.uri))).updates == 1
    assert rows(dst) == rows(src)
    upsert(src, Row("a", "x", 86_400_001, "3"))
    with pytest.raises(InputError, match="in partition '19700102', where the table has that of partition '19700101'"):
        dst.apply(src.changes(since=dst.applied_until(src.uri)))
    same = make_table(tmp_path / "same", partitions=("ts",), **by_day)
    same.apply(src.changes())
    assert rows(same) == rows(src)


def test_a_feed_without_the_columns_of_its_partitions_is_not_applied_where_they_tell_rows_apart(
    tmp_path: Path,
) -> None:
    src = make_table(tmp_path / "src")
    upsert(src, *FIRST)
    named = ["id", "ts", "v"]
    dst = make_table(tmp_path / "dst", partitions=("v",), schema=pa.schema([SCHEMA.field(name) for name in named]))
    with pytest.raises(InputError, match="lacks column 'day'") as no:
        dst.apply(src.changes(columns=named))
    assert "make the feed with day among its columns" in str(no.value.hint)
    dst.apply(src.changes(columns=[*named, "day"]), schema_mode="add")
    assert rows(dst) == rows(src)


def test_the_source_decides_and_not_the_ordering_values(tmp_path: Path) -> None:
    """What was deleted and came again with a smaller value is what the source has; a feed of nobody, or out of turn, is an upsert."""
    src, dst = pair(tmp_path)
    upsert(src, *FIRST, Row("k", "x", 7, "7"))
    feed = src.changes()
    dst.apply(feed)
    src.delete(batch_of([Row("k", "x", 0, None)]).select(["id", "day"]))
    upsert(src, Row("k", "x", 3, "3"))
    assert dst.apply(src.changes(since=feed.until)).updates == 1
    assert rows(dst) == rows(src)
    upsert(dst, Row("k", "x", 9, "9"))
    forced = dst.apply(feed, force=True)
    assert (forced.ignored, forced.updates) == (1, 3)
    late = dst.apply(src.changes().to_pandas())
    assert (late.ignored, late.updates) == (1, 3)


@pytest.mark.parametrize("force", [True, False])
def test_who_decides_is_asked_again_where_a_killed_run_was_told_otherwise(tmp_path: Path, force: bool) -> None:
    """What was verified when the source decided is not that of a feed that is forced, nor the other way round."""
    src, dst = pair(tmp_path)
    upsert(src, *FIRST)
    upsert(dst, Row("a", "x", 9, "9"))
    feed = src.changes()

    def kill() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dst.apply(feed, force=not force, runner=Meanwhile("tag inserts", kill))
    done = dst.apply(feed, force=force)
    assert done.stages[0].reused
    assert (done.ignored, done.updates) == ((1, 0) if force else (0, 1))
    assert [row for row in rows(dst) if row[0] == "a"] == [("a", "x", 9, "9") if force else ("a", "x", 1, "1")]


def test_feeds_are_applied_in_order_and_none_is_left_out(tmp_path: Path) -> None:
    src, dst = pair(tmp_path)
    feeds, since = [], None
    for number in range(1, 4):
        upsert(src, Row("a", "x", number, str(number)), Row(f"n{number}", "x", number, "n"))
        feeds.append(src.changes(since=since))
        since = feeds[-1].until
    whole = src.changes()
    dst.apply(feeds[0])
    before = rows(dst)
    with pytest.raises(UsageError, match="leaves out") as gap:
        dst.apply(feeds[2])
    with pytest.raises(UsageError, match="came and went") as overlap:
        dst.apply(whole)
    assert rows(dst) == before
    for error in (gap, overlap):
        assert str(dst.applied_until(src.uri)) in str(error.value.hint)
    dst.apply(feeds[1])
    assert dst.apply(feeds[0]).noop
    dst.apply(feeds[2])
    assert rows(dst) == rows(src)
    assert dst.apply(whole).noop  # all of it is there
    dst.rollback(dst.history()[0].instant)
    assert dst.apply(feeds[2]).inserts == 1  # the mark goes with its commit
    assert rows(dst) == rows(src)
    forced = dst.apply(whole, force=True)
    assert forced.updates == 4
    assert rows(dst) == rows(src)


def test_a_first_feed_begins_at_the_beginning_unless_the_copy_has_rows(tmp_path: Path) -> None:
    """Who begins in the middle without a copy of what was before has an incomplete one, which says that it is whole."""
    source = make_table(tmp_path / "source")
    first = str(source.upsert(batch_of([Row("a", "x", 1, "1")])).instant)
    source.upsert(batch_of([Row("b", "x", 1, "1")]))
    copy = make_table(tmp_path / "copy")
    late = source.changes(since=first)
    with pytest.raises(UsageError, match="leaves out what was changed between") as caught:
        copy.apply(late)
    assert "since=None" in str(caught.value.hint)
    assert (copy.history(), copy.applied_until(source.uri)) == ((), None)
    copy.apply(source.changes(since=None))
    assert copy.apply(late).noop
    assert sorted(copy.read(meta=False)["id"].to_pylist()) == ["a", "b"]
    forced, loaded = make_table(tmp_path / "forced"), make_table(tmp_path / "loaded")
    assert forced.apply(late, force=True).inserts == 1
    loaded.upsert(source.read(as_of=first, meta=False))
    assert loaded.apply(late).inserts == 1


def test_a_feed_leaves_out_those_before_it_whose_commits_were_taken_back(tmp_path: Path) -> None:
    """Also where no feed of the source is applied any more; one may go on where a copy was begun otherwise."""
    src, dst = pair(tmp_path)
    upsert(src, Row("s", "x", 1, "seed"))
    upsert(dst, Row("s", "x", 1, "seed"))
    feeds, since = [], src.changes().until
    for number in range(1, 4):
        upsert(src, Row(f"n{number}", "x", number, "n"))
        feeds.append(src.changes(since=since))
        since = feeds[-1].until
    for taken_back in (1, 2):
        for feed in feeds[:taken_back]:
            dst.apply(feed)
        dst.restore(before=dst.history()[taken_back - 1].instant)
        assert dst.applied_until(src.uri) is None
        for feed in feeds[1:]:
            with pytest.raises(UsageError, match="leaves out"):
                dst.apply(feed)
    for feed in feeds:
        dst.apply(feed)
    assert rows(dst) == rows(src)


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("undo", ["rollback", "restore"])
@pytest.mark.few(2)
def test_what_was_taken_back_in_the_source_is_not_there_because_more_was_applied(
    tmp_path: Path, undo: str, version: str
) -> None:
    src, dst = pair(tmp_path, hoodie__write__table__version=version)
    upsert(src, *FIRST)
    upsert(src, Row("d", "x", 2, "2"))
    dst.apply(src.changes())
    instant = src.history()[0].instant
    src.rollback(instant) if undo == "rollback" else src.restore(before=instant)
    with pytest.raises(UsageError, match="has changes again"):
        dst.apply(src.changes())
    dst.delete(where="true")
    dst.apply(src.changes(), force=True)
    assert rows(dst) == rows(src)
    upsert(src, Row("e", "y", 3, "3"))
    dst.apply(src.changes(since=dst.applied_until(src.uri)))
    assert rows(dst) == rows(src)


@pytest.mark.parametrize("version", some_of(["6", "9"], {"9"}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("has_backup", [False, True])
def test_a_source_that_was_made_anew_is_another_one(tmp_path: Path, version: str, has_backup: bool) -> None:
    """Its feed since what was applied of the one before does not say that the rows of that are gone."""
    src, dst = pair(tmp_path, hoodie__write__table__version=version)
    upsert(src, Row("old", "x", 1, "1"))
    shutil.copytree(tmp_path / "src", tmp_path / "backup")
    upsert(src, *FIRST)
    dst.apply(src.changes())
    shutil.rmtree(tmp_path / "src")
    if has_backup:
        shutil.copytree(tmp_path / "backup", tmp_path / "src")
    else:
        src = make_table(tmp_path / "src", hoodie__write__table__version=version)
    upsert(src, Row("new", "x", 1, "1"))
    with pytest.raises(UsageError, match="has changes again") as no:
        dst.apply(src.changes(since=dst.applied_until(src.uri)))
    assert "anew" in str(no.value.hint)
    for since in (None, "2020-01-01", "20200101000000000"):
        copy = make_table(tmp_path / f"copy{since}")
        copy.apply(src.changes(since=since))
        assert rows(copy) == rows(src)
        before = copy.applied_until(src.uri)
        upsert(src, Row(f"more{since}", "x", 1, "1"))
        copy.apply(src.changes(since=before))
        assert rows(copy) == rows(src)


def test_a_time_between_two_commits_is_that_of_the_first(tmp_path: Path) -> None:
    src, dst = pair(tmp_path)
    upsert(src, *FIRST)
    now = dt.datetime.now(dt.UTC).isoformat()
    time.sleep(0.002)  # an instant has milliseconds: the next commit must not have that of the time
    upsert(src, Row("d", "x", 2, "2"))
    dst.apply(src.changes(until=now))
    assert len(rows(dst)) == len(FIRST)
    dst.apply(src.changes(since=now))
    assert rows(dst) == rows(src)
    assert dst.apply(src.changes(since=now)).noop


def test_a_store_that_has_several_names_is_one_source(tmp_path: Path) -> None:
    """A feed by Hadoop's name of the bucket goes on where one by the other name ended."""
    src, dst = pair(tmp_path)
    feeds: list[pa.Table] = []
    for number, scheme in enumerate(("s3a", "s3", "s3a")):
        upsert(src, Row(f"n{number}", "x", number, "n"))
        feed = src.changes(since=src.history()[1].instant if number else None).to_arrow()
        said = json.loads(feed.schema.metadata[FEED_KEY])
        text = json.dumps({**said, "source": f"{scheme}://bucket/src"})
        feeds.append(feed.replace_schema_metadata({FEED_KEY: text}))
    dst.apply(feeds[0])
    with pytest.raises(UsageError, match="leaves out"):
        dst.apply(feeds[2])
    dst.apply(feeds[1])
    assert {dst.applied_until(f"{scheme}://bucket/src") for scheme in ("s3", "s3a")} == {
        json.loads(feeds[1].schema.metadata[FEED_KEY])["until"]
    }
    dst.apply(feeds[2])
    assert rows(dst) == rows(src)


def test_feeds_of_nothing_and_deletes_of_unknown_keys_count(tmp_path: Path) -> None:
    src, dst = pair(tmp_path)
    upsert(src, *FIRST)
    dst.apply(src.changes())
    dst.delete(batch_of(FIRST[:1]).select(["id", "day"]))
    since = src.changes().until
    src.delete(batch_of(FIRST[:1]).select(["id", "day"]))
    feed = src.changes(since=since)
    assert dst.apply(feed, dry_run=True).ignored == 1
    assert dst.applied_until(src.uri) == since
    done = dst.apply(feed)
    assert (done.ignored, done.instant) == (1, None)  # it is gone already: nothing to commit, and the feed is applied
    assert dst.applied_until(src.uri) != since
    empty = src.changes(since=dst.applied_until(src.uri))
    assert dst.apply(empty).rows_in == 0
    upsert(src, Row("z", "x", 1, "1"))
    assert dst.apply(src.changes(since=dst.applied_until(src.uri))).inserts == 1
    assert rows(dst) == rows(src)


def test_every_form_of_a_feed(tmp_path: Path) -> None:
    src, dst = pair(tmp_path)
    upsert(src, *FIRST)
    feed = src.changes()
    path = tmp_path / "feed.parquet"
    pq.write_table(feed.to_arrow(), path)
    files = [tmp_path / f"feed.{ending}" for ending in ("arrow", "feather", "ipc", "IPC")]
    for one in files:
        feather.write_feather(feed.to_arrow(), one)
    table = feed.to_arrow()
    said = {**json.loads(table.schema.metadata[FEED_KEY]), "of_a_later_version": 1}
    later = table.replace_schema_metadata({FEED_KEY: json.dumps(said)})
    named: Sequence[object] = [feed, feed.to_batches(), table, path, [str(path)], *files, later]
    assert dst.apply(named[0]).inserts == 3
    for form in named[1:]:
        done = dst.apply(form)
        assert done.noop
        assert done.inserts == 3  # as the run that did it
    for form in (feed.to_pandas(), pl.from_arrow(feed.to_arrow()), feed.to_arrow().replace_schema_metadata(None)):
        assert dst.apply(form).updates == 3  # nobody says what it is of
    assert dst.apply(feed.to_pandas(), batch_id="mine").updates == 3
    assert dst.apply(feed.to_pandas(), batch_id="mine").noop
    assert dst.apply(feed, dry_run=True).noop
    assert rows(dst) == rows(src)


def test_what_is_no_feed_is_refused_by_name(tmp_path: Path) -> None:
    src, dst = pair(tmp_path)
    upsert(src, *FIRST)
    changes = src.changes().to_arrow()
    for mode in (None, "add"):
        with pytest.raises(SchemaMismatchError, match="_change_type") as refused:
            dst.upsert(src.changes(), schema_mode=mode)
        assert "table.apply(changes)" in str(refused.value.hint)
    with pytest.raises(InputError, match="no column '_change_type'"):
        dst.apply(batch_of(FIRST))
    place = changes.schema.get_field_index("_change_type")
    with pytest.raises(InputError, match="row 0 of the feed has the change type 'gone'"):
        dst.apply(changes.set_column(place, "_change_type", pa.array(["gone"] * 3)))
    with pytest.raises(InputError, match="no feed at"):
        dst.apply(tmp_path / "none.parquet")
    (tmp_path / "text.csv").write_text("id\n1\n")
    with pytest.raises(InputError, match="is no feed"):
        dst.apply(tmp_path / "text.csv")
    pq.write_table(changes, tmp_path / "one.parquet")
    pq.write_table(changes.replace_schema_metadata(None), tmp_path / "two.parquet")
    with pytest.raises(InputError, match="of another feed"):
        dst.apply([tmp_path / "one.parquet", tmp_path / "two.parquet"])
    assert content_of(dst) == set()


def test_a_feed_since_a_commit_goes_on_where_that_one_was_completed(tmp_path: Path) -> None:
    """Somebody names the commit by its instant; on a table of version 9 it was completed later than it began."""
    src, dst = pair(tmp_path, hoodie__write__table__version="9")
    upsert(src, *FIRST)
    dst.apply(src.changes())
    first = src.history()[0].instant
    upsert(src, Row("a", "x", 2, "2"))
    assert dst.apply(src.changes(since=first)).updates == 1
    assert rows(dst) == rows(src)


def test_the_words_and_the_marks_of_each_row_of_a_feed() -> None:
    kinds = ["insert", "update_preimage", "update_postimage", "delete"]
    feed = pa.table({"id": list("abcd"), "_hoodie_is_deleted": [True, None, False, False], "_change_type": kinds})
    found = pa.Table.from_batches(list(marked(feed)))
    assert found.to_pydict() == {"id": list("abcd"), "_hoodie_is_deleted": [True, True, False, True]}
    plain = pa.Table.from_batches(list(marked(feed.drop_columns(["_hoodie_is_deleted"]))))
    assert plain["_hoodie_is_deleted"].to_pylist() == [False, True, False, True]
    wrong = pa.table({"id": ["e", "f"], "_change_type": ["insert", "upsert"]})
    with pytest.raises(InputError, match="row 5 of the feed has the change type 'upsert'"):
        list(marked(pa.concat_tables([feed.drop_columns(["_hoodie_is_deleted"]), wrong])))
    with pytest.raises(InputError, match="row 0 of the feed has the change type None"):
        list(marked(pa.table({"id": ["e"], "_change_type": pa.array([None], pa.string())})))


def test_a_feed_that_reaches_further_and_meets_no_file_is_seen_when_another_is_published(tmp_path: Path) -> None:
    """What the first inserts is gone again by the end of the second: both write nothing of one partition."""
    src, dst = pair(tmp_path)
    upsert(src, *FIRST)
    dst.apply(src.changes())
    since = dst.applied_until(src.uri)
    upsert(src, Row("k", "x", 2, "2"))
    near = src.changes(since=since)
    src.delete(batch_of([Row("k", "x", 0, None)]).select(["id", "day"]))
    upsert(src, Row("m", "y", 2, "2"))
    far = src.changes(since=since)
    meanwhile = Meanwhile("tag inserts", lambda: dst.apply(far, options=OVERTAKES))
    with pytest.raises(FencedError, match="another run has applied the changes"):
        dst.apply(near, runner=meanwhile)
    assert meanwhile.done == 1
    assert rows(dst) == rows(src)
    assert dst.applied_until(src.uri) == far.until
    assert dst.apply(near).noop
    other = Meanwhile("tag inserts", lambda: dst.upsert(batch_of([Row("o", "y", 2, "2")]), options=OVERTAKES))
    upsert(src, Row("p", "x", 2, "2"))
    assert dst.apply(src.changes(since=far.until), runner=other).inserts == 1, (
        "a batch that is no feed is in nobody's way"
    )
    assert other.done == 1
