"""Markers."""

from lakeindex.model import BaseFile
from lakeindex.timeline.pending_files import marked_files, remove_markers, write_markers
from tests.model.world import file_id
from tests.unit.commit.protocol_support import World

TIME = "20260101000000000"


def test_what_is_written_is_read(world: World) -> None:
    files = [BaseFile("p", file_id(1), TIME, "0-0-0"), BaseFile("", file_id(2), TIME, "0-0-0")]
    write_markers(world.store, [(files[0], True), (files[1], False)])
    write_markers(world.store, [(files[0], True)])
    assert marked_files(world.store, TIME) == {file.path for file in files}
    remove_markers(world.store, TIME)
    assert marked_files(world.store, TIME) == frozenset()


def test_markers_of_hudis_timeline_server(world: World) -> None:
    folder = f".hoodie/.temp/{TIME}"
    world.store.write(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    world.store.write(f"{folder}/MARKERS0", b"p/a.parquet.marker.CREATE\nq/b.parquet.marker.MERGE\n")
    world.store.write(f"{folder}/MARKERS13", b"p/c.parquet.marker.CREATE\np/d.log.1_0.marker.APPEND\nhalf a li")
    assert marked_files(world.store, TIME) == {"p/a.parquet", "q/b.parquet", "p/c.parquet"}
