"""The ledger follows rollbacks by anybody, and outlives archiving."""

import pytest

from lakeindex.commit.ledger import LEDGER_FOLDER, LedgerEntry, find_batch, forget_batch, is_announced, record_batch
from lakeindex.commit.run_records import claim_foreign, drop_claim
from lakeindex.commit.services.archive import LogArchive
from lakeindex.errors import TableCorruptError
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import RollbackMetadata, format_rollback_metadata
from lakeindex.timeline.records import key_of
from lakeindex.timeline.verdicts import Outcome, Verdict, overrule
from tests.unit.commit.protocol_support import BATCH, FIRST, OTHER, World


def found(world: World, batch_id: str = BATCH.identity.batch_id) -> LedgerEntry | None:
    return find_batch(world.store, Table.open(world.store).load_timeline(), batch_id)


def test_a_batch_is_found_by_its_id(world: World) -> None:
    instant = world.upsert(BATCH)
    entry = found(world)
    assert entry is not None
    assert (entry.batch_id, entry.input_digest, entry.instant) == (BATCH.identity.batch_id, "d1", instant)
    assert found(world, "another") is None
    record_batch(world.store, LedgerEntry(BATCH.identity.batch_id, "d2", world.upsert(OTHER)))
    again = found(world)
    assert again is not None
    assert again.input_digest == "d2", "it was committed once more, with force"


def test_an_archived_commit_still_counts(world: World) -> None:
    instant = world.upsert(BATCH)
    world.upsert(OTHER, "two")
    for path in list(world.store.snapshot()):
        if path.startswith((f".hoodie/{FIRST}", f".hoodie/{instant}")):
            world.store.delete(path)
    entry = found(world)
    assert entry is not None
    assert entry.instant == instant


@pytest.mark.parametrize("kept", [False, True])
def test_an_archived_commit_that_we_have_rolled_back_does_not_count(world: World, kept: bool) -> None:
    """No rollback of ours need be on the timeline any more: the verdict says so. Also where an older instant is still there."""
    instant = world.upsert(BATCH)
    world.upsert(OTHER, "two")
    timeline = Table.open(world.store).load_timeline()
    archive = LogArchive(world.store, timeline.layout.archive_folder)
    archive.record(timeline, [one for one in timeline.files if one.time == instant], archive.recorded())
    for path in list(world.store.snapshot()):
        if path.startswith((f".hoodie/{instant}", *(() if kept else (f".hoodie/{FIRST}",)))):
            world.store.delete(path)
    for outcome in (Outcome.ROLLED_BACK, Outcome.COMMITTED):
        overrule(world.store, Verdict(instant, outcome, "token", batch_id=BATCH.identity.batch_id))
        assert (found(world) is None) is (outcome is Outcome.ROLLED_BACK)


def test_a_commit_that_hudi_rolled_back_does_not_count(world: World) -> None:
    instant = world.upsert(BATCH)
    for path in list(world.store.snapshot()):
        if path.startswith(f".hoodie/{instant}"):
            world.store.delete(path)
    assert found(world) is None


def test_nor_does_it_when_it_was_the_first_one(world: World) -> None:
    instant = world.upsert(BATCH)
    world.upsert(OTHER, "two")
    later = "20260101000000900"
    done = RollbackMetadata(later, instant, "commit")
    world.store.write(f".hoodie/{later}.rollback", format_rollback_metadata(done))
    for path in list(world.store.snapshot()):
        if path.startswith((f".hoodie/{FIRST}", f".hoodie/{instant}")):
            world.store.delete(path)
    assert found(world) is None


def test_an_entry_is_never_overwritten(world: World) -> None:
    instant = world.upsert(BATCH)
    record_batch(world.store, LedgerEntry(BATCH.identity.batch_id, "other", instant, None))
    entry = found(world)
    assert entry is not None
    assert entry.input_digest == "d1"


def test_a_damaged_entry_is_named(world: World) -> None:
    world.upsert(BATCH)
    path = world.store.list(LEDGER_FOLDER)[0].path
    for content in (b"[]", b"{}", b'{"instant": 1}'):
        world.store.write(path, content)
        with pytest.raises(TableCorruptError, match="ledger"):
            found(world)


@pytest.mark.parametrize("content", [b"", b"{", bytes(40)])
@pytest.mark.parametrize("gone", ["", "verdicts", "verdicts and commit"])
def test_a_torn_entry_is_told_by_the_verdict_or_the_commit(world: World, content: bytes, gone: str) -> None:
    instant = world.upsert(BATCH)
    world.upsert(OTHER)
    world.store.write(world.store.list(f"{LEDGER_FOLDER}/{key_of(BATCH.identity.batch_id)}")[0].path, content)
    for one in world.store.list(".hoodie/.lakeindex/verdicts") if "verdicts" in gone else []:
        world.store.delete(one.path)
    for path in list(world.store.snapshot()) if "commit" in gone else []:
        if path.startswith((f".hoodie/{FIRST}", f".hoodie/{instant}")):
            world.store.delete(path)  # as archiving would
    entry = found(world)
    assert entry is not None
    assert (entry.instant, entry.input_digest) == (instant, "" if "commit" in gone else "d1")
    assert world.upsert(BATCH) == instant


def test_a_withdrawn_batch_does_not_count_and_was_not_told(world: World) -> None:
    """Its writer died after it had withdrawn the commit, and before it took the commit away."""
    batch_id, instant = BATCH.identity.batch_id, world.upsert(BATCH)
    forget_batch(world.store, batch_id, instant)
    record_batch(world.store, LedgerEntry(batch_id, "d1", instant, withdrawn=True))
    assert found(world) is None
    assert not is_announced(world.store, batch_id, instant)


def test_a_torn_entry_says_nothing_while_recovery_has_still_to_tell(world: World) -> None:
    """The commit may be withdrawn yet: a claim stands, whatever the verdict and the commit say."""
    instant = world.upsert(BATCH)
    world.store.write(world.store.list(LEDGER_FOLDER)[0].path, b"")
    claim_foreign(world.store, world.host("settler"), instant)
    assert found(world) is None
    drop_claim(world.store, instant)
    entry = found(world)
    assert entry is not None
    assert entry.instant == instant
