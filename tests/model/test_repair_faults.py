"""Every storage call of a repair fails once: the same repair is run again, and the table is whole, nothing lost that need not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from lakeindex.api.table import LakeTable
from lakeindex.operations.repair import Asked, repair_table
from lakeindex.operations.repair_kept import NOTE
from lakeindex.operations.repair_properties import Given, repair_properties
from lakeindex.options.parse import parse_options
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, content_of, make_table
from tests.model.harness import Operation, fail_every_call
from tests.model.test_pipeline_faults import OPTIONS, TABLE, run_batch_of, table_equals
from tests.scheduling import some_of

pytestmark = pytest.mark.usefixtures("time_leaps")

CONFIG = parse_options(OPTIONS)
FIRST = [Row(key, day, 1, "1") for key, day in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"))]
SECOND = [Row("a", "x", 2, "2"), Row("e", "x", 2, "2"), Row("c", "y", 2, "2")]
NAMES = {"6": ("files", "record_index"), "8": (), "9": ("files", "column_stats", "record_index")}
NOBODYS = "00000000-0000-4000-8000-000000000000-0"
FIELDS = Given(("id",), ("day",), ("ts",))


def store_of() -> MemoryStorage:
    return MemoryStorage.named("pipeline")


def prepared(version: str, damage: Callable[[MemoryStorage], None]) -> Callable[[], dict[str, bytes]]:
    """Two commits, a metadata table of some partitions, and damage."""

    def prepare() -> dict[str, bytes]:
        store = store_of()
        for one in (store, MemoryStorage.named("pipeline-runs"), MemoryStorage.named("pipeline.repaired")):
            one.restore({})
        table = make_table(
            TABLE,
            hoodie__write__table__version=version,
            hoodie__index__type="RECORD_INDEX" if NAMES[version] else "BLOOM",
        )
        run_batch_of(FIRST, "first")
        if NAMES[version]:
            table.metadata_build(list(NAMES[version]))
        run_batch_of(SECOND, "second")
        damage(store)
        return store.snapshot()

    return prepare


def live(store: MemoryStorage, partition: str) -> str:
    (file,) = Table.open(store).listed_snapshot().base_files(partition)
    return file.path


def lose_a_file(store: MemoryStorage) -> None:
    """The newest slice of x, partition metadata of y; and a file of nobody, and old markers in z."""
    newest = Table.open(store).load_timeline().completed_writes[-1].time
    path, stray = live(store, "x"), live(store, "y")
    store.write(f"y/{NOBODYS}_0-0-0_{newest}.parquet", store.read(stray))
    store.delete("y/.hoodie_partition_metadata")
    store.delete(path)
    store.write(f".hoodie/.temp/{newest}/MARKERS0", b"")


def spoil_a_footer(store: MemoryStorage) -> None:
    path = live(store, "x")
    data = bytearray(store.read(path))
    data[-100] ^= 0x40
    store.write(path, bytes(data))


def lose_properties(store: MemoryStorage) -> None:
    store.write(".hoodie/hoodie.properties", store.read(".hoodie/hoodie.properties")[:70])


def repair(store: MemoryStorage) -> None:
    table = LakeTable(store.uri)
    repair_table(
        store.uri, LocalRunner(1), lambda *, dry_run: table.repair_keys(apply=not dry_run), Asked(apply=True), CONFIG
    )


def check_whole(version: str, *, again: bool) -> Callable[[MemoryStorage], None]:
    """Nothing is left to mend; the metadata table is there and right; the rows, with what was lost sent again."""

    def check(store: MemoryStorage) -> None:
        table = LakeTable(store.uri)
        left = table.repair()
        assert left.ok, (left.mends, left.unmended)
        assert NOTE not in store.snapshot()
        assert set(Table.open(store).properties.metadata_partitions) == set(NAMES[version])
        if NAMES[version]:
            verified = table.metadata_verify()
            assert verified.ok, verified.examples
        if again:
            assert {(row["id"], row["v"]) for row in table.read(meta=False).to_pylist()} == {
                ("a", "1"), ("b", "1"), ("c", "2"), ("d", "1"),
            }  # fmt: skip
            late = [replace(row, ts=3, v="2") for row in SECOND]
            run_batch_of(late, "again", uri=store.uri)
            table_equals([FIRST, SECOND, late], is_global=False)(store)
        table_equals([FIRST, SECOND, late] if again else [FIRST, SECOND], is_global=False)(store)

    return check


def lost_file(version: str) -> Operation:
    prepare, check = prepared(version, lose_a_file), check_whole(version, again=True)
    return Operation(f"repair of a lost file, version {version}", prepare, repair, check, store=store_of)


def footer(version: str) -> Operation:
    prepare, check = prepared(version, spoil_a_footer), check_whole(version, again=False)
    return Operation(f"repair of a footer, version {version}", prepare, repair, check, store=store_of)


def properties(version: str) -> Operation:
    """What nothing shows is said: of version 8 without a metadata table the version."""
    options = {} if NAMES[version] else {"hoodie.write.table.version": version}
    given = structs.replace(FIELDS, options=options)

    def check(store: MemoryStorage) -> None:
        check_whole(version, again=False)(store)
        assert content_of(LakeTable(store.uri))

    def run(store: MemoryStorage) -> None:
        repair_properties(store.uri, given, CONFIG, apply=True)

    return Operation(
        f"repair of properties, version {version}", prepared(version, lose_properties), run, check, store=store_of
    )


OPERATIONS = {"file": lost_file, "footer": footer, "properties": properties}
SOME = [("file", "6", 211, 3), ("file", "9", 223, 131), ("footer", "9", 67, 7), ("properties", "6", 17, 5)]


@pytest.mark.parametrize(
    ("name", "version", "every", "first"), some_of(SOME, lambda case: case[:2] != ("file", "6"), pytest.mark.model)
)
@pytest.mark.few(1)
def test_some_calls_may_fail(name: str, version: str, every: int, first: int) -> None:
    report = fail_every_call(OPERATIONS[name](version), every=every, first=first)
    assert report.histories > 1


@pytest.mark.model
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("version", "first"), [("6", 1), ("8", 2), ("9", 3)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_call_may_fail(name: str, version: str, first: int) -> None:
    """A third of the calls on each version."""
    report = fail_every_call(OPERATIONS[name](version), every=3, first=first)
    assert report.histories > 10
