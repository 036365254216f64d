"""Record indexes of the metadata table with holes, as Hudi has left them: found by kind, believed by no write, mended."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError, PendingInstantError, TableCorruptError
from lakeindex.metadata.metadata_records import encode_record
from lakeindex.metadata.record_index import RecordLocation, location_record
from lakeindex.metadata_upkeep.index_entries import entries_elsewhere, may_be_wrong, wrong_entries
from lakeindex.storage.local import LocalStorage
from lakeindex.timeline.avro_instants import OWN_SYNC_MARKER, RollbackPlan, format_rollback_plan
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.model.scheduling import Killed
from tests.scheduling import some_of
from tests.told_tables import Shards, edit_record_index
from tests.unit.metadata.test_hudis_indexes import NAMES as NAMES_OF_HUDIS
from tests.unit.metadata.test_hudis_indexes import opened

FORMS = [("6", "RECORD_INDEX"), ("8", "RECORD_INDEX"), ("9", "RECORD_INDEX")]
FORMS += [("8", "RECORD_LEVEL_INDEX"), ("9", "RECORD_LEVEL_INDEX")]
DAYS = ("x", "y")
NAMES = [f"k{number:03d}" for number in range(40)]
STORED = [Row(f"{day}{name}", day, 1, "1") for day in DAYS for name in NAMES]
BATCH = [Row(one.id, one.day, 2, "2") for one in STORED[::3]] + [Row("new", "x", 2, "2"), Row("gone", "y", 2, "2")]
KINDS = ("missing", "stale", "misplaced", "doubled", "copy")


def place(partition: str, file_id: str, schema: str) -> bytes:
    return encode_record(location_record(RecordLocation(partition, file_id, 1)), schema)


def home_of(shards: Shards, key: str) -> str:
    return next(group for group, entries in shards.items() if key.encode() in entries)


def a_key_missing(shards: Shards, _: str) -> None:
    del shards[home_of(shards, "xk000")][b"xk000"]


def a_tenth_missing(shards: Shards, _: str) -> None:
    for entries in shards.values():
        for key in [one for one in entries if one.endswith(b"3")]:
            del entries[key]


def a_stale_key(shards: Shards, _: str) -> None:
    """A row that was deleted; its entry says the file group that it was in."""
    entries = shards[home_of(shards, "yk000")]
    entries[b"gone"] = entries[b"yk000"]


def a_missing_and_a_stale_key(shards: Shards, schema: str) -> None:
    """As many entries as rows."""
    a_key_missing(shards, schema)
    a_stale_key(shards, schema)


def in_another_file_group(shards: Shards, _: str) -> None:
    entries = shards[home_of(shards, "xk000")]
    entries[b"xk000"] = shards[home_of(shards, "yk000")][b"yk000"]


def in_a_file_group_that_is_gone(shards: Shards, schema: str) -> None:
    there = shards[home_of(shards, "xk000")]
    there[b"xk000"] = place("x", "00000000-0000-0000-0000-000000000001-0", schema)


def in_two_shards(shards: Shards, _: str) -> None:
    home = home_of(shards, "xk000")
    other = next(group for group in shards if group != home and (len(shards) > 2 or "y" in group))
    shards[other][b"xk000"] = shards[home][b"xk000"]


def a_shard_empty(shards: Shards, _: str) -> None:
    shards[home_of(shards, "xk000")].clear()


def a_shard_gone(shards: Shards, _: str) -> None:
    del shards[home_of(shards, "xk000")]


Edit = Callable[[Shards, str], None]
# what there is wrong, and how many of each kind; None: that depends on how the keys are spread
HOLES: dict[Edit, tuple[int | None, ...]] = {
    a_key_missing: (1, 0, 0, 0, 0),
    a_tenth_missing: (8, 0, 0, 0, 0),
    a_stale_key: (0, None, None, None, 0),
    a_missing_and_a_stale_key: (1, None, None, None, 0),
    in_another_file_group: (0, 0, 1, 0, 0),
    in_a_file_group_that_is_gone: (0, 0, 1, 0, 0),
    in_two_shards: (0, None, 0, None, 0),
    a_shard_empty: (None, 0, 0, 0, 0),
    a_shard_gone: (None, None, None, 0, 0),
}


def table_of(folder: Path, version: str, kind: str) -> tuple[LakeTable, Oracle]:
    table = make_table(folder / "t", hoodie__index__type=kind, hoodie__write__table__version=version)
    oracle = Oracle(is_global=kind == "RECORD_INDEX", moves=False)
    table.upsert(batch_of(STORED))
    oracle.apply(STORED)
    table.metadata_build(["files", "record_index"])
    return table, oracle


def copied(table: LakeTable, folder: Path) -> LakeTable:
    shutil.copytree(table.uri, folder)
    return LakeTable(str(folder))


def log_lost(table: LakeTable, oracle: Oracle) -> None:
    """What a commit said to the index."""
    folder = Path(table.uri) / ".hoodie/metadata/record_index"
    before = set(folder.iterdir())
    more = [Row(f"more{number}", "x", 1, "1") for number in range(5)]
    table.upsert(batch_of(more))
    oracle.apply(more)
    for path in set(folder.iterdir()) - before:
        path.unlink()


def check_refused_then_mended(table: LakeTable, oracle: Oracle, hole: str) -> None:
    """Nothing is written on what the index says; once it was made anew, twice as well, all is right."""
    said = r"(missing|stale|misplaced|doubled) entries, [0-9,]+ of them of file group .* of partition|no file group"
    oracle, timeline = deepcopy(oracle), sorted(Path(table.uri, ".hoodie").rglob("*commit*"))
    write = table.delete if hole == "a_key_missing" else table.upsert
    with pytest.raises((MetadataTableError, TableCorruptError), match=said) as caught:
        write(batch_of(BATCH))
    assert "metadata build TABLE --partition record_index" in caught.value.hint, hole
    assert sorted(Path(table.uri, ".hoodie").rglob("*commit*")) == timeline, hole
    assert content_of(table) == oracle.content(), hole
    for _ in range(2 if hole == "log" else 1):
        assert table.metadata_build(["record_index"]).built == ("record_index",)
    assert table.metadata_verify().ok, hole
    assert table.upsert(batch_of(BATCH)).inserts == oracle.apply(BATCH)["inserts"], hole
    assert content_of(table) == oracle.content(), hole
    assert table.check().ok, hole


@pytest.mark.parametrize(
    ("version", "kind"),
    some_of(FORMS, {("6", "RECORD_INDEX"), ("9", "RECORD_LEVEL_INDEX")}.__contains__, pytest.mark.slow),
)
@pytest.mark.few(1)
def test_holes_are_counted_and_mended(tmp_path: Path, version: str, kind: str) -> None:
    right, oracle = table_of(tmp_path, version, kind)
    assert right.metadata_verify().record_index == dict.fromkeys(KINDS, 0)
    for edit, wanted in HOLES.items():
        table = copied(right, tmp_path / edit.__name__)
        edit_record_index(table, edit)
        found = table.metadata_verify()
        assert set(found.counts) == {"key"}, (edit.__name__, found)
        numbers = [found.record_index[name] for name in KINDS]
        assert all(want in (None, is_so) for want, is_so in zip(wanted, numbers, strict=True)), (edit.__name__, found)
        assert sum(numbers) == found.counts["key"]
        assert {one.entry for one in found.examples} == {name for name in KINDS if found.record_index[name]}
        check_refused_then_mended(table, oracle, edit.__name__)
    table = copied(right, tmp_path / "log")
    log_lost(table, oracle)
    assert table.metadata_verify().record_index["missing"] == 5
    check_refused_then_mended(table, oracle, "log")


def services_of_others(table: LakeTable) -> dict[str, tuple[str, bytes]]:
    """What another writer may be about to take back, by what it is: the action, and the plan."""
    (other,) = [file for file in table.files() if file.partition == "y"]
    location = f"file:{table.uri.removeprefix('file://')}/{other.path}"
    plan = RollbackPlan(instant_time="20200101000000000", action="commit", files={"y": (location,)})
    return {
        "a plan that cannot be read": ("rollback", b""),
        "no file": ("rollback", foreign(format_rollback_plan(replace(plan, files={})))),
        "a file of another file group": ("rollback", foreign(format_rollback_plan(plan))),
    }


def taken_back(table: LakeTable, *days: str, action: str = "commit") -> bytes:
    """The plan of another writer that takes back files of these partitions."""
    files = {file.partition: (f"file:{table.uri}/{file.path}",) for file in table.files() if file.partition in days}
    return foreign(format_rollback_plan(RollbackPlan(instant_time="20200101000000000", action=action, files=files)))


def foreign(plan: bytes) -> bytes:
    return plan.replace(OWN_SYNC_MARKER, b"somebody-elses-1")


@pytest.mark.parametrize("version", some_of(["6", "9"], {"6"}.__contains__, pytest.mark.slow))
def test_what_others_take_back_makes_no_hole_elsewhere(tmp_path: Path, version: str) -> None:
    """A rollback that another writer has begun may stand there for hours, and the key that has no entry is stored."""
    right, _ = table_of(tmp_path, version, "RECORD_INDEX")
    edit_record_index(right, a_key_missing)
    now = f"{datetime.now(UTC):%Y%m%d%H%M%S}000"
    for what, (action, plan) in services_of_others(right).items():
        table = copied(right, tmp_path / what.replace(" ", "-"))
        timeline = Path(table.uri, ".hoodie", "timeline" if version == "9" else "")
        (timeline / f"{now}.{action}.requested").write_bytes(plan)
        (timeline / f"{now}.{action}.inflight").write_bytes(b"")
        with pytest.raises(MetadataTableError, match="1 missing entries"):
            table.upsert(batch_of(BATCH))
        assert len(table.scan(columns=["id"]).to_arrow()) == len(STORED), what


def wrong_in_both(shards: Shards, schema: str) -> None:
    a_stale_key(shards, schema)
    in_a_file_group_that_is_gone(shards, schema)


@pytest.mark.parametrize("version", some_of(["6", "9"], {"9"}.__contains__, pytest.mark.slow))
def test_what_is_wrong_of_file_groups_that_others_take_back_is_nobodys_hole(tmp_path: Path, version: str) -> None:
    """The entries of such files go before the files do. What is replaced is in no plan."""
    right, _ = table_of(tmp_path, version, "RECORD_INDEX")
    x, y, both, nothing, replaced = (
        taken_back(right, *days, action=action)
        for *days, action in (("x", "commit"), ("y", "commit"), ("x", "y", "commit"), ("commit",), ("replacecommit",))
    )
    cases: list[tuple[Edit, list[bytes], bool]] = [
        (a_key_missing, [x], True),
        (a_key_missing, [y], False),
        (a_stale_key, [y], True),
        (a_stale_key, [x], False),
        (in_a_file_group_that_is_gone, [x], True),
        (wrong_in_both, [x], False),
        (wrong_in_both, [both], True),
        (wrong_in_both, [x, y], True),
        (a_key_missing, [nothing], False),
        (a_key_missing, [replaced], True),
        (a_key_missing, [y, replaced], True),
    ]
    for number, (edit, plans, is_fine) in enumerate(cases):
        table = copied(right, tmp_path / str(number))
        edit_record_index(table, edit)
        for second, plan in enumerate(plans):
            instant = Path(table.uri, ".hoodie", "timeline" if version == "9" else "", f"2026010100000{second}000")
            instant.with_suffix(".rollback.requested").write_bytes(plan)
            instant.with_suffix(".rollback.inflight").write_bytes(b"")
        asked = batch_of([Row("new", "y", 2, "2")])
        if is_fine:
            assert table.upsert(asked, dry_run=True).inserts == 1, number
        else:
            with pytest.raises(MetadataTableError, match=" entries, "):
                table.upsert(asked, dry_run=True)


def test_a_refusal_names_the_file_group_with_most_and_a_key_of_it(tmp_path: Path) -> None:
    table, _ = table_of(tmp_path, "6", "RECORD_INDEX")

    def edit(shards: Shards, _: str) -> None:
        for key in ("xk000", "xk001", *(f"yk{number:03d}" for number in range(5))):
            del shards[home_of(shards, key)][key.encode()]

    edit_record_index(table, edit)
    with pytest.raises(
        MetadataTableError, match=r"7 missing entries, 5 of them .* of partition 'y', of key 'yk00[0-4]'"
    ):
        table.upsert(batch_of(BATCH))


@pytest.mark.parametrize("version", some_of(["6", "9"], {"6"}.__contains__, pytest.mark.slow))
def test_an_index_is_made_anew_behind_a_compaction_that_was_cut_short_and_beside_no_writer(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = table_of(tmp_path, version, "RECORD_INDEX")
    table.upsert(batch_of([Row("more", "x", 1, "1")]))
    edit_record_index(table, a_key_missing)
    metadata, write = Path(table.uri, ".hoodie/metadata"), LocalStorage.create

    def killed(self: LocalStorage, path: str, data: bytes) -> None:
        if path.endswith(".hfile"):
            raise Killed
        write(self, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "create", killed)
        patch.setattr(LocalStorage, "write", killed)
        with pytest.raises(Killed):
            table.maintain(["metadata"])
    assert list(metadata.rglob("*.compaction.requested"))
    assert not list(metadata.rglob("*.compaction"))
    now = f"{datetime.now(UTC):%Y%m%d%H%M%S}000"
    other = Path(table.uri, ".hoodie", "timeline" if version == "9" else "", f"{now}.rollback.requested")
    other.write_bytes(taken_back(table, "y"))
    before = sorted(metadata.rglob("*"))
    with pytest.raises(
        PendingInstantError, match=f"cannot be made anew .* while rollback {now} is requested"
    ) as caught:
        table.metadata_build(["record_index"])
    assert sorted(metadata.rglob("*")) == before
    assert "metadata drop TABLE --partition record_index" in str(caught.value.hint)
    cured = copied(table, tmp_path / "cured")
    cured.metadata_drop(["record_index"])
    cured.metadata_build(["record_index"])
    assert cured.metadata_verify().ok
    other.unlink()
    for _ in range(3):
        table.metadata_build(["record_index"])
        assert table.metadata_verify().ok
    groups = {path.name.partition("_")[0] for path in (metadata / "record_index").glob("*.hfile")}
    assert len(list((metadata / "record_index").glob("*.hfile"))) <= 2 * len(groups), "older ones are cleaned away"


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_file_group_without_a_stored_key_loses_what_is_stale(tmp_path: Path, version: str) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="RECORD_INDEX", hoodie__write__table__version=version)
    table.upsert(batch_of(STORED[:1]))
    table.metadata_build(["files", "record_index"])
    table.metadata_build(["record_index"])

    def edit(shards: Shards, _: str) -> None:
        assert len(shards) == 10
        value = shards[home_of(shards, "xk000")][b"xk000"]
        for number, entries in enumerate(shards.values()):
            entries.setdefault(f"stale{number}".encode(), value)

    edit_record_index(table, edit)
    assert not table.metadata_verify().ok
    table.metadata_build(["record_index"])
    assert table.metadata_verify().ok


@pytest.mark.parametrize("name", NAMES_OF_HUDIS)
def test_hudis_own_indexes_are_believed(name: str, tmp_path: Path) -> None:
    """Those of its releases, after inserts, updates, deletes, cleans, compactions and not."""
    _, table, view = opened(name, tmp_path)
    files = table.snapshot().base_files_all()
    assert not list(wrong_entries(view, files))
    assert not list(entries_elsewhere(view, files))
    assert not any(may_be_wrong(view, files, str(seed)) for seed in range(5))
