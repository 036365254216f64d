"""Cleaning, archiving and the other steps of maintenance on real tables: rows stay, what is old goes."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pybase64
import pytest

from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import InvariantError, OptionError, UsageError
from lakeindex.files.file_system_view import all_base_files
from lakeindex.files.footer_cache import CACHE_FOLDER, FooterCache
from lakeindex.files.footers import read_footer
from lakeindex.format.instants import next_instant_time
from lakeindex.operations import table_services as cleaning
from lakeindex.operations.maintain import STEPS, maintain, maintain_step
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import default_checkpoints
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex, validate
from tests.golden import made_once
from tests.meanwhile import MemoryTable, writes_data
from tests.unit.commit.savepoints import savepoint_bytes
from tests.unit.operations.test_rescaling import put_pending

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64())])
KEEP = {"hoodie.cleaner.commits.retained": "2", "hoodie.keep.min.commits": "2"}
RUNNER = LocalRunner(2)


def rows(numbers: range, version: int) -> pa.Table:
    ids = [f"k{number:04d}" for number in numbers]
    days = [f"d{number % 3}" for number in numbers]
    return pa.table({"id": ids, "day": days, "ts": [version] * len(ids)}, schema=SCHEMA)


def table_with_commits(uri: str, count: int = 6, index: str = "BLOOM") -> LakeTable:
    return written(Path(uri), count, index)


@made_once
def written(folder: Path, count: int, index: str) -> LakeTable:
    table = make_table(
        folder, schema=SCHEMA, keys=("id",), partitions=("day",), ordering="ts", hoodie__index__type=index
    )
    for version in range(count):
        table.upsert(rows(range(version, 60 + version), version), batch_id=f"batch {version}")
    return table


def contents(uri: str) -> list[dict[str, object]]:
    found = open_table(uri).read(meta=True).select(["id", "day", "ts"]).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def base_files(folder: Path) -> int:
    return len([path for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts])


def test_clean_and_archive_on_disk(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = table_with_commits(uri)
    before, files = contents(uri), base_files(tmp_path / "t")
    dry = lakeindex("clean", uri, "--keep-commits", "2", "--dry-run", "--json")
    validate("clean", dry.json)
    assert base_files(tmp_path / "t") == files
    done = lakeindex("clean", uri, "--keep-commits", "2", "--json")
    validate("clean", done.json)
    assert done.json["files"] == dry.json["files"]
    assert base_files(tmp_path / "t") == files - len(done.json["files"]) == 9
    archived = lakeindex("archive", uri, "--keep-commits", "2", "-o", "hoodie.cleaner.commits.retained=2", "--json")
    validate("archive", archived.json)
    assert [one["action"] for one in archived.json["instants"]] == ["commit"] * 4
    assert contents(uri) == before
    assert table.check().ok
    assert table.upsert(rows(range(60), 0), batch_id="batch 0").noop, "a batch that was archived is known"
    assert "the timeline begins with" in lakeindex("archive", uri, "--keep-commits", "20").stdout


def test_the_same_on_an_object_store(tmp_path: Path) -> None:
    uri = "memory://cleaned"
    table = written.__wrapped__(uri, 6, "BLOOM")
    before = contents(uri)
    assert cleaning.clean(uri, 1).instant is not None
    assert len(cleaning.archive(uri, 10).instants) == 0
    assert contents(uri) == before
    assert table.check().ok


def test_what_cannot_be_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table_with_commits(uri, 1)
    with pytest.raises(OptionError, match="cannot be 0"):
        cleaning.clean(uri, 0)
    with pytest.raises(UsageError, match="cleaning keeps 10"):
        cleaning.archive(uri, 5)


@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX", "BUCKET"])
@pytest.mark.few(1)
def test_every_step_and_none_of_the_rows(tmp_path: Path, index: str) -> None:
    uri = str(tmp_path / "t")
    table = table_with_commits(uri, index=index)
    if index == "RECORD_INDEX":
        table.index_build()
        table.upsert(rows(range(6, 66), 6), batch_id="batch 6")
    before = contents(uri)
    done = maintain(uri, default_checkpoints(uri), RUNNER, KEEP)
    assert [step.step for step in done.steps] == list(STEPS)
    by_step = {step.step: step for step in done.steps}
    assert by_step["clean"].counts["files"] > 0
    assert by_step["archive"].counts["instants"] > 0
    assert by_step["compact"].changed == (index == "RECORD_INDEX")
    assert contents(uri) == before
    again = maintain(uri, default_checkpoints(uri), RUNNER, KEEP)
    assert not [step.step for step in again.steps if step.changed]
    table.upsert(rows(range(3, 70), 9), batch_id="after")
    assert table.check().ok


def test_the_cache_is_filled(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table_with_commits(uri, 2)
    shutil.rmtree(tmp_path / "t" / CACHE_FOLDER)
    first = maintain_step(uri, "cache", default_checkpoints(uri), RUNNER)
    assert first.counts == {"footers": 3, "dropped": 0}
    again = maintain_step(uri, "cache", default_checkpoints(uri), RUNNER)
    assert again.counts == {"footers": 0, "dropped": 0}


def test_the_cache_does_not_outlive_what_it_is_of(tmp_path: Path) -> None:
    """File groups go with a clustering and a clean: what was kept of them goes, too, and the filters as bytes."""
    uri = str(tmp_path / "t")
    table = table_with_commits(uri, 4)
    table.cluster(sort="key")
    table.delete_partitions(["d1"])
    table.upsert(rows(range(3), 9).slice(0, 1))
    table.clean(1)
    storage = open_storage(uri)
    files = all_base_files(storage)
    done = maintain_step(uri, "cache", default_checkpoints(uri), RUNNER)
    assert done.counts["dropped"] > 5, done
    assert maintain_step(uri, "cache", default_checkpoints(uri), RUNNER).counts == {"footers": 0, "dropped": 0}
    cache = FooterCache(storage)
    found = list(cache.load_filters([(where, file) for file in files for where in [cache.load(files)[file.path][1]]]))
    assert [footer.filter_text for file, footer in found] == [
        read_footer(storage, file).filter_text for file, _ in found
    ]
    kept = [one for one in storage.list_folder(CACHE_FOLDER).objects if one.path.endswith(".filters")]
    needed = sum(len(pybase64.b64decode(str(footer.filter_text))) for _, footer in found if footer is not None)
    assert sum(one.size_bytes for one in kept) <= 2 * needed


def test_files_of_nobody_that_archiving_takes_out_are_counted(tmp_path: Path) -> None:
    table = table_with_commits(str(tmp_path / "t"))
    file = next((tmp_path / "t").glob("*/*.parquet"))
    shutil.copy(
        file, file.with_name(f"00000000-0000-4000-8000-000000000000-0_0-0-0_{file.stem.rpartition('_')[2]}.parquet")
    )
    options = {"hoodie.cleaner.commits.retained": "2", "hoodie.keep.min.commits": "3"}
    done = maintain_step(table.uri, "archive", default_checkpoints(table.uri), RUNNER, options)
    assert done.counts == {"instants": 3, "strays": 1}


def test_row_counts_do_not_outlive_their_files(tmp_path: Path) -> None:
    """They have files of their own in the cache, also where the index asks for no footers."""
    table = table_with_commits(str(tmp_path / "t"), 3, "SIMPLE")
    storage = open_storage(table.uri)
    before = all_base_files(storage)
    FooterCache(storage, only_rows=True).add([(file, read_footer(storage, file)) for file in before])
    table.clean(1)
    there = all_base_files(storage)
    done = maintain_step(table.uri, "cache", default_checkpoints(table.uri), RUNNER)
    assert done.counts == {"footers": 0, "dropped": len(before) - len(there)}
    assert len(there) < len(before)
    kept = FooterCache(storage, only_rows=True).load(before)
    assert set(kept) == {file.path for file in there}


def test_finished_runs_and_batches_that_went_leave_no_folders(tmp_path: Path) -> None:
    table = table_with_commits(str(tmp_path / "t"), 3)
    table.restore(table.history()[-1].instant)
    own = tmp_path / "t" / ".hoodie/.lakeindex"
    assert list((own / "runs").iterdir()) == []
    assert len(list((own / "ledger").iterdir())) == 1
    assert list((tmp_path / "t" / ".hoodie/.temp").iterdir()) == []


def test_an_index_without_footers_is_given_none(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table_with_commits(uri, 2, "SIMPLE")
    done = maintain_step(uri, "cache", default_checkpoints(uri), RUNNER)
    assert not done.changed
    assert "asks for no footers" in str(done.note)
    assert not (tmp_path / "t" / CACHE_FOLDER).exists()


def test_a_broken_table_and_a_step_that_there_is_not(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table_with_commits(uri, 1)
    next((tmp_path / "t").rglob("d0/*.parquet")).unlink()
    with pytest.raises(InvariantError, match="broken"):
        maintain_step(uri, "check", default_checkpoints(uri), RUNNER)
    with pytest.raises(UsageError, match="vacuum"):
        maintain_step(uri, "vacuum", default_checkpoints(uri), RUNNER)


def test_on_the_command_line(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table_with_commits(uri)
    pairs = [word for key, text in KEEP.items() for word in ("-o", f"{key}={text}")]
    done = lakeindex("maintain", uri, *pairs, "--json")
    validate("maintain", done.json)
    assert [step["step"] for step in done.json["steps"]] == [
        "settle",
        "savepoint",
        "clean",
        "metadata",
        "archive",
        "compact",
        "cache",
        "runs",
        "sync",
    ]
    shown = lakeindex("maintain", uri, "--steps", "check").stdout
    assert "rows in 3 files are sound" in shown


def test_a_savepoint_can_be_read_after_all_else_is_gone(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = table_with_commits(uri, 5)
    saved = table.history()[-2].instant
    snapshot = Table.open(open_storage(uri)).snapshot(saved)
    files = {part: tuple(file.name for file in snapshot.base_files(part)) for part in snapshot.partitions()}
    (tmp_path / "t/.hoodie" / f"{saved}.savepoint.inflight").touch()
    (tmp_path / "t/.hoodie" / f"{saved}.savepoint").write_bytes(savepoint_bytes(files))
    before = table.read(as_of=saved, meta=True)
    one = parse_options({"hoodie.cleaner.commits.retained": "1"})
    assert cleaning.clean(uri, 1, one).kept_for_savepoints == 3
    assert cleaning.archive(uri, 1, one).held_by == f"savepoint {saved}"
    assert table.read(as_of=saved, meta=True).equals(before)


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        ("clean TABLE --keep-commits 1", "clean"),
        ("archive TABLE --keep-commits 10", "archive"),
        ("rollback TABLE LAST", "rollback"),
        ("savepoint create TABLE", "savepoint-create"),
        ("savepoint create TABLE --instant FIRST", "savepoint-create"),
        ("savepoint delete TABLE FIRST", "savepoint-delete"),
        ("metadata build TABLE", "metadata-build"),
    ],
)
def test_what_was_rolled_back_of_other_writers_is_noted(tmp_path: Path, command: str, schema: str) -> None:
    table = table_with_commits(str(tmp_path / "t"), 3)
    writes = Table.open(open_storage(table.uri)).load_timeline().completed_writes
    table.savepoint_create(writes[0].time)
    theirs = put_pending(table)
    named = {"TABLE": table.uri, "LAST": writes[-1].time, "FIRST": writes[0].time}
    done = lakeindex(*(named.get(word, word) for word in command.split()), "--force", "--json")
    (note,) = done.json["notes"]
    assert note.startswith(f"instant {theirs} (commit) of another writer was rolled back")
    validate(schema, done.json)


@pytest.mark.parametrize("step", ["savepoint", "clean", "archive"])
def test_a_step_alone_says_what_it_rolled_back_of_other_writers(tmp_path: Path, step: str) -> None:
    table = table_with_commits(str(tmp_path / "t"), 3)
    theirs = put_pending(table)
    options = {"lakeindex.maintain.savepoints": "1", "lakeindex.pending.foreign.max.age": "0"}
    (done,) = table.maintain([step], options=options).steps
    assert str(done.note).startswith(f"instant {theirs} (commit) of another writer was rolled back")


def test_of_its_own_savepoints_the_newest_stays_though_its_commit_began_first() -> None:
    """It was completed last, with all that was committed by then."""
    keep = {"lakeindex.maintain.savepoints": "1"}
    world = MemoryTable(hoodie__write__table__version="9")

    def inner() -> None:
        world.upsert([Row("b", "y", 1, "")])
        world.table.maintain(["savepoint"], options=keep)

    world.once(writes_data, inner)
    outer = world.upsert([Row("c", "z", 1, "")]).instant
    assert world.table.maintain(["savepoint"], options=keep).steps[0].counts == {"made": 1, "deleted": 1}
    assert [one.instant for one in world.table.savepoint_list().savepoints] == [outer]


def test_dead_runs_go_when_nobody_has_written_to_them_for_long(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = table_with_commits(uri, 2)
    runs = tmp_path / "t.lakeindex"
    for name, days in (("dead", 31), ("fresh", 29)):
        (runs / name / "stage_input").mkdir(parents=True)
        file = runs / name / "stage_input" / "part.parquet"
        file.touch()
        (runs / name / "run.json").write_text(json.dumps({"format": 1, "run_id": name, "table": uri}))
        os.utime(runs / name / "run.json", (time.time() - days * 86_400,) * 2)
        os.utime(file, (time.time() - days * 86_400,) * 2)
    finished = {path.name for path in runs.iterdir()} - {"dead", "fresh"}
    assert table.maintain(["runs"]).steps[0].counts == {"runs": 1}
    assert {path.name for path in runs.iterdir()} == {*finished, "fresh"}
    assert table.maintain(["runs"], options={"lakeindex.checkpoint.keep.dead.days": "20"}).steps[0].changed


def test_from_python(tmp_path: Path) -> None:
    table = table_with_commits(str(tmp_path / "t"), 4)
    assert len(table.clean(1, dry_run=True).files) == len(table.clean(1).files) > 0
    two = {"hoodie.cleaner.commits.retained": "2"}
    planned = table.archive(2, dry_run=True, options=two).instants
    assert len(planned) == 2
    assert table.archive(2, options=two).instants == planned
    newest = table.history()[0].target or table.history()[1].instant
    assert table.rollback(newest).instant == newest
    assert table.check().ok


@pytest.mark.parametrize("step", STEPS)
def test_working_data_does_not_go_into_a_table(tmp_path: Path, step: str) -> None:
    """Steps that write or delete below the checkpoints' root look at it first; the others take any."""
    uri = str(tmp_path / "t")
    is_below = step in ("compact", "runs")
    table_with_commits(uri, 3 if is_below else 1, "RECORD_INDEX")
    files = base_files(tmp_path / "t")
    if not is_below:
        assert maintain(uri, uri, RUNNER, steps=[step]).steps[0].step == step
        return
    for root in (uri, str(tmp_path)):
        with pytest.raises(UsageError, match="table"):
            maintain(uri, root, RUNNER, {"hoodie.cleaner.commits.retained": "1"}, ["clean", step])
    assert base_files(tmp_path / "t") == files, "no step was taken"


def test_savepoints_are_made_and_the_oldest_of_its_own_deleted(tmp_path: Path) -> None:
    """Those of others stay; a second time on the same commit makes none."""
    table = table_with_commits(str(tmp_path / "t"), 2)
    first = table.savepoint_create(comment="mine").savepoint.instant
    keep = {"lakeindex.maintain.savepoints": "2"}
    assert not table.maintain(["savepoint"]).steps[0].changed
    made = []
    for number in range(3, 6):
        table.upsert(rows(range(number), number), batch_id=f"later {number}")
        assert table.maintain(["savepoint"], options=keep).steps[0].counts["made"] == 1
        assert not table.maintain(["savepoint"], options=keep).steps[0].changed
        made.append(table.savepoint_list().savepoints[-1].instant)
    assert [one.instant for one in table.savepoint_list().savepoints] == [first, *made[-2:]]


class KilledError(BaseException):
    """A process ends."""


def kill(call: Call) -> None:
    """Whoever begins to delete base files."""
    if call.name == "delete" and call.path.endswith(".parquet"):
        raise KilledError


def settle(world: MemoryTable, folder: Path) -> dict[str, int]:
    """What the step that carries on what others left has counted."""
    options = {"lakeindex.pending.foreign.max.age": "0"}
    return dict(maintain_step(world.table.uri, "settle", str(folder / "runs"), RUNNER, options).counts)


def test_what_was_left_is_counted_once(tmp_path: Path) -> None:
    """A clean that is finished is no rollback; an instant that is rolled back is neither finished nor committed."""
    world = MemoryTable("BLOOM")
    for version in range(4):
        world.upsert([Row("a", "x", version, str(version))])
    world.store.hook = kill
    with pytest.raises(KilledError):
        world.table.clean(keep_commits=1)
    world.store.hook = None
    assert settle(world, tmp_path) == {"rolled_back": 0, "committed": 0, "cleans_finished": 1}
    time = next_instant_time(world.timeline().max_time, 0)
    for state in ("commit.requested", "inflight"):
        world.store.write(f".hoodie/{time}.{state}", b"")
    assert settle(world, tmp_path) == {"rolled_back": 1, "committed": 0, "cleans_finished": 0}
    assert settle(world, tmp_path) == {"rolled_back": 0, "committed": 0, "cleans_finished": 0}


@pytest.mark.parametrize(("cut_short", "gone"), [("rollback", 1), ("restore", 2)])
def test_writes_are_counted_that_were_rolled_back_and_not_what_did_it(
    tmp_path: Path, cut_short: str, gone: int
) -> None:
    world = MemoryTable("BLOOM")
    times = [str(world.upsert([Row("a", "x", version, "")]).instant) for version in range(3)]
    world.store.hook = kill
    with pytest.raises(KilledError):
        world.table.rollback(times[2]) if cut_short == "rollback" else world.table.restore(times[0])
    world.store.hook = None
    assert settle(world, tmp_path) == {"rolled_back": gone, "committed": 0, "cleans_finished": 0}


def test_what_its_writer_commits_meanwhile_is_counted_as_committed_alone(tmp_path: Path) -> None:
    world = MemoryTable("BLOOM")
    first = str(world.upsert([Row("a", "x", 1, "1")]).instant)
    time = next_instant_time(world.timeline().max_time, 0)
    for state in ("commit.requested", "inflight"):
        world.store.write(f".hoodie/{time}.{state}", b"")
    commit = world.store.read(f".hoodie/{first}.commit")
    done = world.once(
        lambda call: call.name == "create" and "lock" in call.path,
        lambda: world.store.write(f".hoodie/{time}.commit", commit),
    )
    assert settle(world, tmp_path) == {"rolled_back": 0, "committed": 1, "cleans_finished": 0}
    assert done


def test_what_others_archive_meanwhile_was_not_rolled_back(tmp_path: Path) -> None:
    """Settling waits for whoever holds the lock, and many a writer archives at its end."""
    world = MemoryTable("BLOOM")
    for version in range(6):
        world.upsert([Row("a", "x", version, "")])
    other = open_table(world.table.uri)

    def others() -> None:
        other.clean(1)
        assert other.archive(2, options={"hoodie.cleaner.commits.retained": "1"}).instants

    done = world.once(lambda call: call.name == "create" and "lock" in call.path, others)
    assert settle(world, tmp_path) == {"rolled_back": 0, "committed": 0, "cleans_finished": 0}
    assert done


def test_buckets_are_no_crowd(tmp_path: Path) -> None:
    """A key has one file there, and small ones are not put together: rows that came later are not sorted in each time."""
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="1")
    small = {"lakeindex.parquet.row.group.rows": "2"}
    for ids in ("bdfh", "aceg"):
        table.upsert(batch_of([Row(key, "x", 1, "") for key in ids]), options=small)
    assert table.cluster(dry_run=True).files_before == 1
    assert not table.maintain(["cluster"], options=small).steps[0].changed
