"""Repair: damage done from outside is mended on positive evidence, what is removed is kept, and nothing else is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from time import sleep

import pytest
from click.testing import CliRunner

from lakeindex.api.table import LakeTable
from lakeindex.cli import main
from lakeindex.errors import FencedError, OptionError, PendingInstantError, TableCorruptError, UsageError
from lakeindex.format.instants import CLEAN, next_instant_time
from lakeindex.lock.lock import LOCK_FOLDER
from lakeindex.model import Instant, InstantState
from lakeindex.operations import repair as repairing
from lakeindex.operations import repair_plan
from lakeindex.operations.repair_kept import NOTE, Kept
from lakeindex.operations.repair_plan import Mend, Unmended
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from lakeindex.table.host import this_host
from tests.builders import Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.meanwhile import MemoryTable
from tests.scheduling import some_of
from tests.stored_indexes import inserted
from tests.unit.commit.protocol_support import KilledError

pytestmark = pytest.mark.usefixtures("time_leaps")
VERSIONS = ("6", "8", "9")
FIRST = [Row(key, "xyz"[n % 3], 1, f"first {key}") for n, key in enumerate("abcdef")]
SECOND = [Row(key, "xyz"["abcdefgh".index(key) % 3], 2, f"second {key}") for key in "defgh"]
NOBODYS = "00000000-0000-4000-8000-000000000000-0"
OLD = "20200101000000000"


@made_once
def table_of_two(folder: Path, version: str = "9", partitions: tuple[str, ...] = (), index: str = "BLOOM") -> LakeTable:
    """A table with two commits; a metadata table, if partitions of one are named, is built after the first."""
    buckets = {"hoodie__bucket__index__num__buckets": "1"} if index == "BUCKET" else {}
    table = make_table(folder / "t", hoodie__write__table__version=version, hoodie__index__type=index, **buckets)
    table.upsert(batch_of(FIRST), batch_id="one")
    if partitions:
        table.metadata_build(list(partitions))
    table.upsert(batch_of(SECOND), batch_id="two")
    return table


def root(table: LakeTable) -> Path:
    return Path(table.uri)


def live_of(table: LakeTable, partition: str) -> Path:
    """The one live file of a partition."""
    snapshot = Table.open(open_storage(table.uri)).listed_snapshot()
    (file,) = snapshot.base_files(partition)
    return root(table) / file.path


def as_nobodys(file: Path, instant: str = "") -> Path:
    """A copy of a base file that no commit names."""
    other = file.with_name(f"{NOBODYS}_0-0-0_{instant or file.stem.rpartition('_')[2]}.parquet")
    shutil.copy(file, other)
    return other


def told(mends: tuple[Mend, ...] | tuple[Unmended, ...]) -> list[tuple[str, str]]:
    return [(str(one.kind), one.culprit) for one in mends]


def tree(table: LakeTable) -> dict[str, bytes]:
    folder = root(table)
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def is_whole(table: LakeTable) -> None:
    """The check agrees, every row is there, and both batches and a third can be written."""
    done = table.repair(apply=True)
    assert done.ok, (done.mends, done.unmended)
    table.upsert(batch_of([Row("a", "x", 9, "late")]), batch_id="after")
    report = table.check()
    assert report.ok, report.violations


def test_a_sound_table_has_nothing_to_mend(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    before = tree(table)
    done = table.repair(apply=True)
    assert (done.ok, done.mends, done.unmended, done.kept, done.dry_run) == (True, (), (), None, True)
    assert done.rows_before == done.rows_after == table.count() == 8
    assert tree(table) == before
    assert not Path(f"{table.uri}.repaired").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_strays_and_what_the_dead_left(tmp_path: Path, version: str) -> None:
    """All that is mended file by file: a plan first, which changes nothing; then done; what was there before is kept."""
    table = table_of_two(tmp_path, version, ("files",) if version != "8" else ())
    (root(table) / "x/.hoodie_partition_metadata").unlink()
    (root(table) / "y/.hoodie_partition_metadata").write_bytes(b"junk")
    stray = as_nobodys(live_of(table, "z"))
    content = stray.read_bytes()
    hadoops = stray.with_name(f".{stray.name}.crc")
    hadoops.write_bytes(b"crc")
    newest = table.history()[0].instant
    for instant in (newest, OLD):
        marker = root(table) / f".hoodie/.temp/{instant}/x/a_0-0-0_{instant}.parquet.marker.CREATE"
        marker.parent.mkdir(parents=True)
        marker.touch()
    before = tree(table)
    planned = table.repair()
    of_stray = str(stray.relative_to(root(table)))
    expected = [
        ("partition", "x/.hoodie_partition_metadata"),
        ("partition", "y/.hoodie_partition_metadata"),
        ("stray", of_stray),
        ("leftover", f".hoodie/.temp/{newest}"),
        ("keys", "table"),
    ]
    assert told(planned.mends) == expected
    assert told(planned.unmended) == [("leftover", f".hoodie/.temp/{OLD}")], "nothing says what became of it"
    assert tree(table) == before
    assert not Path(f"{table.uri}.repaired").exists()
    done = table.repair(apply=True)
    assert (planned.dry_run, done.dry_run) == (True, False)
    assert told(done.mends) == expected
    assert (done.rows_before, done.rows_doubled, done.rows_after) == (8, 0, table.count())
    kept = Path(str(done.kept).removeprefix("file://"))
    assert kept.parent == Path(f"{table.uri}.repaired")
    assert (kept / of_stray).read_bytes() == content
    assert (kept / "z" / hadoops.name).read_bytes() == b"crc"
    assert not hadoops.exists()
    assert (kept / "y/.hoodie_partition_metadata").read_bytes() == b"junk"
    assert list((kept / f".hoodie/.temp/{newest}").rglob("*CREATE"))
    assert json.loads((kept / "repair.json").read_text())["mends"]
    assert not stray.exists()
    assert (root(table) / f".hoodie/.temp/{OLD}").exists()
    shutil.rmtree(root(table) / f".hoodie/.temp/{OLD}")
    assert not (root(table) / NOTE).exists()
    if version != "8":
        assert table.metadata_verify().ok
    is_whole(table)


def test_a_completed_write_gets_its_requested_file_again(tmp_path: Path) -> None:
    for version in VERSIONS:
        table = table_of_two(tmp_path / version, version)
        folder = Table.open(open_storage(table.uri)).properties.timeline_layout.folder
        newest = table.history()[0].instant
        requested = root(table) / folder / f"{newest}.commit.requested"
        requested.unlink()
        assert [kind for kind, _ in told(table.repair(["requested"], apply=True).mends)] == ["requested"]
        assert requested.read_bytes() == b""
        is_whole(table)


def test_a_clean_whose_plan_cannot_be_read_goes(tmp_path: Path) -> None:
    for version in VERSIONS:
        table = table_of_two(tmp_path / version, version)
        folder = root(table) / Table.open(open_storage(table.uri)).properties.timeline_layout.folder
        time = str(int(table.history()[0].instant) + 1)
        plan, inflight = (folder / f"{time}.clean.{state}" for state in ("requested", "inflight"))
        for one in (plan, inflight):
            one.touch()
        done = table.repair(["clean"], apply=True)
        assert told(done.mends) == [("clean", time)]
        assert not plan.exists()
        assert not inflight.exists()
        table.clean(1)
        is_whole(table)


def test_a_clean_that_was_half_taken_off_the_timeline_is_found_again() -> None:
    world = MemoryTable.holding(FIRST, SECOND, hoodie__write__table__version="9")
    time = next_instant_time(world.timeline().max_time, 0)
    states = (InstantState.REQUESTED, InstantState.INFLIGHT)
    paths = [world.timeline().path(Instant(time, CLEAN, state)) for state in states]
    for path in paths:
        world.store.write(path, b"")
    going = list[str]()

    def dies() -> None:
        raise KilledError

    def is_second(call: Call) -> bool:
        going.extend([call.path] if call.name == "delete" and call.path in paths else [])
        return len(going) == 2

    world.once(is_second, dies)
    with pytest.raises(KilledError):
        world.table.repair(["clean"], apply=True)
    world.store.hook = None
    assert told(world.table.repair(["clean"], apply=True).mends) == [("clean", time)]
    assert not world.timeline().pending


def test_files_that_may_be_somebodys_stay(tmp_path: Path) -> None:
    """Of a pending instant, of one about which nothing is known, and one that is named by nobody's rules."""
    table = table_of_two(tmp_path)
    folder = root(table) / ".hoodie/timeline"
    live = live_of(table, "x")
    pending, later = (str(int(table.history()[0].instant) + more) for more in (1, 2))
    (folder / f"{pending}.commit.requested").touch()
    (folder / f"{pending}.inflight").touch()
    beside = as_nobodys(live, pending)
    markers = root(table) / f".hoodie/.temp/{pending}/x/{beside.name}.marker.CREATE"
    markers.parent.mkdir(parents=True)
    markers.touch()
    unknown = as_nobodys(live_of(table, "y"), later)
    odd = live.with_name("rows.parquet")
    shutil.copy(live, odd)
    planned = table.repair()
    assert told(planned.mends) == []
    assert {kind for kind, _ in told(planned.unmended)} == {"pending", "stray"}
    assert [one.culprit for one in planned.unmended if one.kind == "stray"] == [
        str(odd.relative_to(root(table))),
        str(unknown.relative_to(root(table))),
    ]
    as_nobodys(live_of(table, "z"))
    with pytest.raises(PendingInstantError):
        table.repair(["stray"], apply=True)
    assert beside.exists()
    assert markers.exists()
    assert unknown.exists()
    assert odd.exists()


def test_a_dead_writer_is_settled_and_a_living_one_is_not(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    pending = "20240101000000000"
    folder = root(table) / ".hoodie/timeline"
    for name in (f"{pending}.commit.requested", f"{pending}.inflight"):
        (folder / name).touch()
    assert told(table.repair(["pending"]).unmended) == [("pending", pending)]
    done = table.repair(["pending"], apply=True, force=True)
    assert told(done.mends) == [("pending", pending)]
    assert pending not in Table.open(open_storage(table.uri)).load_timeline().pending_times
    assert table.check().ok


def test_of_each_end_of_an_instant_what_it_left_goes(tmp_path: Path) -> None:
    """By whatever says how it ended: the timeline, its archive, our verdict, a rollback that is there or archived itself."""
    for version in ("6", "9"):
        table = table_of_two(tmp_path / version, version)
        own = root(table) / ".hoodie/.lakeindex/verdicts"
        undone = str(table.history()[0].instant)
        table.rollback(undone)
        (own / f"{undone}.json").unlink(missing_ok=True)

        def ends(*times: str, of: LakeTable = table) -> dict[str, str]:
            for time in times:
                (root(of) / f".hoodie/.temp/{time}").mkdir(parents=True, exist_ok=True)
                (root(of) / f".hoodie/.temp/{time}/MARKERS0").touch()
            found = [one for one in of.repair(["leftover"]).mends if one.kind == "leftover"]
            return {one.culprit.rpartition("/")[2]: one.found.rpartition(", which ")[2] for one in found}

        assert ends(undone) == {undone: "was rolled back"}
        written = [str(table.upsert(batch_of([Row("a", "x", n, "v")])).instant) for n in range(2, 7)]
        table.clean(1)
        assert table.archive(1, options={"hoodie.cleaner.commits.retained": "1"}).instants
        assert undone not in " ".join(one.name for one in (root(table) / ".hoodie").rglob("*.rollback")), "archived"
        for time in written[:2]:
            (own / f"{time}.json").unlink(missing_ok=True)
        assert ends(undone, written[0], written[-1]) == {
            undone: "was rolled back",
            written[0]: "was archived",
            written[-1]: "is completed",
        }
        assert table.repair(["leftover"], apply=True).ok
        assert not any((root(table) / ".hoodie/.temp").iterdir())


def test_who_lost_the_lock_mends_no_further() -> None:
    """Between any two mends another writer may have taken it over: what is left to do is his to look at."""
    world = MemoryTable.holding(FIRST, SECOND, hoodie__write__table__version="9")
    newest = world.timeline().completed_writes[-1].time
    live = [file for part in "xyz" for file in Table.open(world.store).listed_snapshot().base_files(part)]
    strays = [f"{one.partition_path}/{NOBODYS}_0-0-0_{newest}.parquet" for one in live]
    for one, stray in zip(live, strays, strict=True):
        world.store.write(stray, world.store.read(one.path))

    def taken_over() -> None:
        (lock, *_) = sorted((one.path for one in world.store.list(LOCK_FOLDER)), reverse=True)
        folder, _, name = lock.rpartition("/")
        number = int(name.removesuffix(".json"))
        record = json.loads(world.store.read(lock)) | {"epoch": number + 1}
        world.store.write(f"{folder}/{number + 1:0{len(name) - 5}d}.json", json.dumps(record).encode())

    assert world.once(lambda call: call.name == "delete" and call.path == strays[0], taken_over) == []
    with pytest.raises(FencedError):
        world.table.repair(["stray"], apply=True)
    there = {one.path for one in world.store.list()}
    assert [stray in there for stray in strays] == [False, True, True]


def test_what_a_savepoint_names_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of_two(tmp_path)
    stray = as_nobodys(live_of(table, "x"))
    path = str(stray.relative_to(root(table)))
    monkeypatch.setattr(repair_plan, "saved_names", lambda *_: frozenset({path}))
    planned = table.repair(["stray"])
    assert planned.mends == ()
    assert (path, "a savepoint names it") in {(one.culprit, one.why) for one in planned.unmended}


@pytest.mark.parametrize("damage", ["a delta", "the timeline", "a base file"])
@pytest.mark.parametrize("version", some_of(["6", "9"], {"9"}.__contains__, pytest.mark.slow))
def test_the_metadata_table_is_built_anew(tmp_path: Path, version: str, damage: str) -> None:
    names = ("files", "column_stats", "record_index")
    table = table_of_two(tmp_path, version, names, "RECORD_INDEX")
    folder = root(table) / ".hoodie/metadata"
    if damage == "the timeline":
        shutil.rmtree(folder / ".hoodie")
    else:
        pattern = ".*.log.*" if damage == "a delta" else "*.hfile"
        for one in (folder / "files").glob(pattern):
            one.write_bytes(one.read_bytes()[:-40])
    planned = table.repair()
    assert tuple(kind for kind, _ in told(planned.mends)) == ("metadata",), (planned.mends, planned.unmended)
    before = {path: data for path, data in tree(table).items() if path.startswith(".hoodie/metadata")}
    done = table.repair(apply=True)
    kept = Path(str(done.kept).removeprefix("file://"))
    assert {path: (kept / path).read_bytes() for path in before} == before
    there = table.properties["hoodie.table.metadata.partitions"].split(",")
    assert set(there) == set(names)
    assert table.metadata_verify().ok
    is_whole(table)


def test_a_repair_that_was_cut_short_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between taking the metadata table away and building it, nothing but the note says what it had."""
    names = ("files", "column_stats")
    table = table_of_two(tmp_path, "9", names)
    for one in (root(table) / ".hoodie/metadata/files").glob(".*.log.*"):
        one.write_bytes(b"")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(repairing, "build_metadata_table", killed)
    with pytest.raises(KeyboardInterrupt):
        table.repair(apply=True)
    monkeypatch.undo()
    assert "hoodie.table.metadata.partitions" not in table.properties
    assert (root(table) / NOTE).exists()
    with pytest.raises(UsageError, match="cut short"):
        table.repair_discard()
    assert told(table.repair().mends) == [("metadata", NOTE)]
    assert table.repair().mends[0].mend == "column_stats, files of the metadata table are built"
    lost = live_of(table, "x")
    lost.rename(tmp_path / "lost")
    planned = table.repair(["metadata"])
    assert not planned.mends
    assert any("is lost, and not mended now" in one.why for one in planned.unmended), "what is left would hide it"
    (tmp_path / "lost").rename(lost)
    done = table.repair(apply=True)
    assert set(table.properties["hoodie.table.metadata.partitions"].split(",")) == set(names)
    assert len(list(Path(f"{table.uri}.repaired").iterdir())) == 1, "it goes on in the folder where it began"
    assert done.kept
    is_whole(table)


def test_what_a_repair_that_begins_keeps_is_not_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as its folder is there, which somebody may list, the table says whose it is."""
    table, real = table_of_two(tmp_path), Kept.put
    seen: list[UsageError] = []

    def put(kept: Kept, path: str, data: bytes) -> None:
        real(kept, path, data)
        with pytest.raises(UsageError, match="cut short") as no:
            table.repair_discard()
        seen.append(no.value)

    monkeypatch.setattr(Kept, "put", put)
    assert Kept.begin(Table.at(table.uri), this_host(), (), "{}").read("repair.json") == b"{}"
    assert seen


def test_what_a_finished_repair_keeps_goes_beside_one_that_was_cut_short(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    opened = Table.at(table.uri)
    finished = Path(f"{table.uri}.repaired") / "20200101000000000"
    finished.mkdir(parents=True)
    (finished / "kept").write_bytes(b"1")
    begun = Kept.begin(opened, this_host(), (), "{}").uri.rpartition("/")[2]
    for named in (None, begun):
        with pytest.raises(UsageError, match="cut short"):
            table.repair_discard(named)
    assert table.repair_discard(finished.name).repairs == (finished.name,)
    assert [one.name for one in finished.parent.iterdir()] == [begun]


def test_what_was_kept_first_stays_until_a_repair_ends(tmp_path: Path) -> None:
    """One that goes on may find what it tore itself."""
    table = Table.at(table_of_two(tmp_path).uri)
    path = "x/.hoodie_partition_metadata"
    whole = table.storage.read(path)
    begun = Kept.begin(table, this_host(), (), "{}")
    begun.copy([path, "nothing"])
    table.storage.write(path, b"")
    goes_on = Kept.begin(table, this_host(), ("files",), "{}")
    assert (goes_on.uri, goes_on.partitions) == (begun.uri, ("files",))
    goes_on.remove([path])
    assert (goes_on.read(path), goes_on.read("nothing")) == (whole, None)
    goes_on.end()
    assert Kept.unfinished(table.storage) is None
    table.storage.write(path, b"later")
    sleep(0.01)  # a folder is called by its millisecond
    after = Kept.begin(table, this_host(), (), "{}")
    after.copy([path])
    assert (after.read(path), goes_on.read(path), after.partitions) == (b"later", whole, ())


def test_keys_stored_twice_are_one_of_the_kinds(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    inserted(table, [Row("a", "x", 3, "copy"), Row("d", "x", 1, "old copy")])
    planned = table.repair()
    assert told(planned.mends) == [("keys", "table")]
    assert (planned.rows_before, planned.rows_doubled, planned.rows_after) == (10, 2, 8)
    done = table.repair(apply=True)
    assert done.rows_before - done.rows_gone + done.rows_back - done.rows_doubled == done.rows_after == table.count()
    is_whole(table)
    as_nobodys(live_of(table, "y"))
    planned = table.repair()
    assert {str(one.kind) for one in planned.mends} == {"stray", "keys"}
    assert planned.rows_doubled == 0, "the stray is the other holder"
    is_whole(table)


def test_only_some_kinds(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    (root(table) / "x/.hoodie_partition_metadata").unlink()
    stray = as_nobodys(live_of(table, "z"))
    assert [kind for kind, _ in told(table.repair("partition", apply=True).mends)] == ["partition"]
    assert stray.exists()
    with pytest.raises(OptionError, match="'rows'"):
        table.repair(["rows"])


def test_commands(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    (root(table) / "x/.hoodie_partition_metadata").unlink()
    run = CliRunner()
    plan = run.invoke(main, ["repair", table.uri])
    assert plan.exit_code == 0, plan.output
    assert "1 mends; nothing was written: --apply does it" in plan.output
    done = json.loads(run.invoke(main, ["repair", table.uri, "--apply", "--json"]).output)
    assert [one["kind"] for one in done["mends"]] == ["partition"]
    assert "nothing to mend" in run.invoke(main, ["repair", table.uri]).output
    assert "every key is stored once" in run.invoke(main, ["repair", "keys", table.uri]).output
    assert run.invoke(main, ["repair", "--help"]).exit_code == 0
    name = done["kept"].rpartition("/")[2]
    seen = json.loads(run.invoke(main, ["repair", "discard", table.uri, "--dry-run", "--json"]).output)
    assert (seen["repairs"], seen["files"]) == ([name], 1)
    assert run.invoke(main, ["repair", "discard", table.uri, "--repair", "other"]).exit_code == 2
    assert run.invoke(main, ["repair", "discard", table.uri, "--repair", name]).exit_code == 0
    assert not list(Path(f"{table.uri}.repaired").rglob("*.json"))


def test_maintenance_does_what_changes_no_row(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    (root(table) / "x/.hoodie_partition_metadata").unlink()
    stray = as_nobodys(live_of(table, "z"))
    inserted(table, [Row("b", "y", 3, "copy")])
    (done,) = table.maintain(["repair"]).steps
    assert {kind: count for kind, count in done.counts.items() if count} == {"partition": 1, "stray": 1}
    assert not stray.exists()
    assert [kind for kind, _ in told(table.repair().mends)] == ["keys"], "rows are left to who looks at the plan"
    assert not table.maintain(["repair"]).steps[0].changed
    assert "repair" not in [one.step for one in table.maintain().steps]


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX", "BUCKET"])
def test_nothing_is_written_into_a_partition_that_no_reader_finds(tmp_path: Path, index: str) -> None:
    """Its rows would be there again, beside those of the batch; by the metadata table it is found."""
    options = {"hoodie__bucket__index__num__buckets": "2"} if index == "BUCKET" else {}
    table = make_table(tmp_path / "t", hoodie__index__type=index, **options)
    table.upsert(batch_of(FIRST))
    before, again = content_of(table), batch_of([Row("b", "y", 9, "again"), Row("n", "y", 9, "new")])
    marker = root(table) / "y/.hoodie_partition_metadata"
    marker.unlink()
    for write, batch in ((table.upsert, again.slice(0, 1)), (table.upsert, again), (table.insert_overwrite, again)):
        with pytest.raises(TableCorruptError, match=r"y/.* is there, but y/.hoodie_partition_metadata is not") as no:
            write(batch)
        assert "repair TABLE --only partition --apply" in str(no.value.hint)
    assert not marker.exists()
    table.upsert(batch_of([Row("q", "q", 1, "of a new partition"), Row("a", "x", 9, "of another one")]))
    assert table.repair(only=["partition"], apply=True).ok
    others = {one for one in before if one[1] != "a"}
    assert content_of(table) >= others
    table.metadata_build(["files"])
    marker.unlink()
    assert table.upsert(again).inserts == 1
    assert {one for one in content_of(table) if one[2] == "y" and one[1] in "bn"} == {
        ("y", "b", "y", 9, "again"),
        ("y", "n", "y", 9, "new"),
    }
    assert table.check().ok
