"""Markers."""

from lakeindex.model import BaseFile
from lakeindex.timeline.pending_files import marked_files, remove_markers, write_markers
from tests.model.world import file_id
from tests.unit.commit.protocol_support import World

TIME = "20260101000000000"


def test_what_is_written_is_read_and_what_is_to_be_synced_keeps_it(world: World) -> None:
    """Two files have markers of their own; more stand in one, but for names that are not of one line."""
    names, folder = ("p", "", " q\u2028\x0b\x85r ", "two\nlines", "ret\rurn"), f".hoodie/.temp/{TIME}"
    for partitions, form in (
        (names[:2], "direct"),
        (names[2:4], "direct"),
        (names[:3], "listed"),
        (names[:1] * 3, "listed"),
        (names[:4], "direct"),
        (("p", "p", names[4]), "direct"),
    ):
        files = [BaseFile(name, file_id(n), TIME, "0-0-0") for n, name in enumerate(partitions)]
        synced = write_markers(world.store, [(file, n == 0) for n, file in enumerate(files)])
        written = {one.path for one in world.store.list(folder)}
        if form == "listed":
            assert written == {f"{folder}/MARKERS.type", f"{folder}/MARKERS0"} == set(synced)
            assert world.store.read(f"{folder}/MARKERS.type") == b"TIMELINE_SERVER_BASED"
            kinds = ["CREATE", *["MERGE"] * (len(files) - 1)]
            lines = [f"{file.path}.marker.{kind}" for file, kind in zip(files, kinds, strict=True)]
            assert world.store.read(f"{folder}/MARKERS0").decode() == "\n".join([*lines, ""])
        else:
            assert written == {f"{folder}/{f.path}.marker.{'MERGE' if n else 'CREATE'}" for n, f in enumerate(files)}
            assert sorted(one.rpartition("/")[0] for one in synced) == sorted(
                {one.rpartition("/")[0] for one in written}
            )
        assert marked_files(world.store, TIME) == {file.path for file in files}
        remove_markers(world.store, TIME)
        assert marked_files(world.store, TIME) == frozenset()
    assert write_markers(world.store, []) == []


def test_markers_of_hudis_timeline_server(world: World) -> None:
    folder = f".hoodie/.temp/{TIME}"
    world.store.write(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    world.store.write(f"{folder}/MARKERS0", b"p/a.parquet.marker.CREATE\nq/b.parquet.marker.MERGE\n")
    world.store.write(f"{folder}/MARKERS13", b"p/c.parquet.marker.CREATE\np/d.log.1_0.marker.APPEND\nhalf a li")
    assert marked_files(world.store, TIME) == {"p/a.parquet", "q/b.parquet", "p/c.parquet"}
