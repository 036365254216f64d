"""Hudi on a local disk writes a checksum of Hadoop's beside each file: what deletes the file deletes it, too. Left behind it
would not fit the next file of the name.
"""

from collections.abc import Callable

import pytest

from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.restore import restore_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.services.savepoints import create_savepoint, delete_savepoint
from lakeindex.format.file_names import crc_path
from lakeindex.table.handle import Table
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.model.world import CONFIG, file_id, sweep_strays
from tests.unit.commit.protocol_support import BATCH, FIRST, OTHER, World

STRAY_TIME = "20251231000000001"

DELETING: dict[str, tuple[str, Callable[[World, str], object]]] = {
    "a clean": (".parquet", lambda w, _: clean_table(Table.open(w.store), 1, CONFIG, host=w.host("x"))),
    "archiving": (".commit", lambda w, _: archive_table(Table.open(w.store), 1, CONFIG, host=w.host("x"))),
    "a rollback": (
        ".commit",
        lambda w, newest: rollback_instant(Table.open(w.store), newest, CONFIG, host=w.host("x")),
    ),
    "a restore": (".commit", lambda w, _: restore_table(Table.open(w.store), FIRST, CONFIG, host=w.host("x"))),
    "a sweep": (".parquet", lambda w, _: sweep_strays(Table.open(w.store), CONFIG, w.host("x"))),
    "the end of a savepoint": (
        ".savepoint",
        lambda w, _: delete_savepoint(Table.open(w.store), FIRST, CONFIG, host=w.host("x")),
    ),
}
"""What deletes, and what goes at least."""


@pytest.mark.parametrize(("suffix", "delete"), DELETING.values(), ids=list(DELETING))
def test_checksum_files_go_with_their_files(world: World, suffix: str, delete: Callable[[World, str], object]) -> None:
    world.upsert(BATCH)
    newest = world.upsert(OTHER, "two")
    create_savepoint(Table.open(world.store), FIRST, "me", "why", CONFIG, host=world.host("x"))
    if suffix != ".savepoint":
        delete_savepoint(Table.open(world.store), FIRST, CONFIG, host=world.host("x"))
    world.store.write(f"p/{file_id(9)}_0-0-0_{STRAY_TIME}.parquet", b"{}")
    decide(world.store, Verdict(STRAY_TIME, Outcome.ROLLED_BACK, "token"))
    files = [path for path in world.store.snapshot() if path.startswith(("p/", ".hoodie/2"))]
    for path in files:
        world.store.write(crc_path(path), b"crc")
    delete(world, newest)
    there = world.store.snapshot()
    gone = [path for path in files if path not in there]
    assert [path for path in files if crc_path(path) not in there] == gone
    assert any(path.endswith(suffix) for path in gone)
