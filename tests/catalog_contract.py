"""What holds of every catalog: stories that a world plays, one catalog of it each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.catalogs.catalog import LAST_SYNCED, Catalog, CatalogColumn, CatalogPartition, CatalogTable
from lakeindex.catalogs.sync import OPEN, Sync, SyncDone
from lakeindex.catalogs.wanted import Truth, look
from lakeindex.errors import OptionError, SchemaMismatchError, TableExistsError
from lakeindex.options.parse import parse_options
from lakeindex.options.sync_options import SyncOptions
from lakeindex.storage.paths import place_of_location
from lakeindex.table.handle import Table
from tests.builders import make_table

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int32()), ("amount", pa.float32())])
DATABASE = "shop"


class Killed(BaseException):
    """The process ends here."""


class World(Protocol):
    """A catalog for tests, empty for each story."""

    folder: Path
    partitions: int

    def catalog(self) -> Catalog: ...

    def drop_table(self, name: str = "orders") -> None:
        """As somebody does by hand; files stay."""

    def drop_database(self) -> None:
        """Likewise, with all that is in it."""


@dataclass
class Stopping:
    """A catalog whose process ends at a call, before it or after it was done.

    Attributes:
        at: number of the call that changes something; None: it never ends.
        before: what happens at it first, such as another sync.
    """

    inner: Catalog
    at: int | None = None
    done_first: bool = False
    before: Callable[[], None] | None = None
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.inner, name)
        if not name.startswith(("create_", "alter_", "add_", "move_", "drop_")):
            return real

        def call(*args: Any, **named: Any) -> Any:
            self.calls.append(name)
            hit = len(self.calls) == self.at
            if hit and self.before is not None:
                self.before()
                return real(*args, **named)
            if hit and not self.done_first:
                raise Killed
            result = real(*args, **named)
            if hit:
                raise Killed
            return result

        return call


def table_of(world: World, name: str = "orders", **options: str) -> LakeTable:
    return make_table(
        world.folder / name, schema=SCHEMA, keys=("id",), partitions=("region",), ordering="ts", **options
    )


def rows(*keys: str, kind: pa.DataType | None = None, **more: Any) -> pa.Table:
    """One row for each ``id/region``."""
    ids, regions = zip(*(key.split("/", 1) for key in keys), strict=True)
    columns = {"id": ids, "region": regions, "ts": [1] * len(ids), "amount": [1.0] * len(ids)}
    schema = SCHEMA if kind is None else SCHEMA.set(3, pa.field("amount", kind))
    made = pa.table(columns, schema=schema)
    for column, value in more.items():
        made = made.append_column(column, pa.array([value] * len(ids)))
    return made


def sync_of(
    catalog: Catalog, table: LakeTable, seen: Callable[[Truth], Truth] = lambda one: one, **options: str
) -> Sync:
    config = parse_options({"hoodie.datasource.hive_sync.database": DATABASE, **options}).of(SyncOptions)
    opened = Table.at(table.uri)
    name = (DATABASE, config.table or opened.name)
    return Sync(catalog, name, lambda: seen(look(opened.reload(), config, catalog.kind)), config)


def synced(catalog: Catalog, table: LakeTable, **options: str) -> SyncDone:
    return sync_of(catalog, table, **options).run()


def entry(catalog: Catalog, name: str = "orders") -> CatalogTable:
    found = catalog.table(DATABASE, name)
    assert found is not None
    return found


def partitions(catalog: Catalog, name: str = "orders") -> list[str]:
    return sorted("/".join(one.values) for one in catalog.partitions(entry(catalog, name)))


def live_paths(table: LakeTable) -> list[str]:
    return sorted({one.partition_path for one in Table.at(table.uri).listed_snapshot().base_files_all()})


def newest_commit(table: LakeTable) -> str | None:
    return Table.at(table.uri).load_timeline().last_completed_write_time


def assert_agrees(catalog: Catalog, table: LakeTable, **options: str) -> None:
    """The catalog has what the table has: by a look of its own, not by what a sync says."""
    held = entry(catalog)
    assert held.parameters[LAST_SYNCED] == newest_commit(table)
    assert OPEN not in held.parameters
    live = live_paths(table)
    assert partitions(catalog) == live, (partitions(catalog), live)
    done = sync_of(catalog, table, **options).check()
    assert done == SyncDone(instant=held.parameters[LAST_SYNCED], strange=done.strange)


def created_and_then_nothing_to_do(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu", "b/us"))
    done = synced(catalog, table)
    assert (done.created, [one.values for one in done.added]) == (True, [("eu",), ("us",)])
    held = entry(catalog)
    kinds = {one.name: one.kind for one in held.columns if not one.name.startswith("_hoodie")}
    assert kinds == {"id": "string", "ts": "int", "amount": "float"}
    assert [(one.name, one.kind) for one in held.partition_columns] == [("region", "string")]
    assert held.parameters["spark.sql.sources.provider"] == "hudi"
    assert_agrees(catalog, table)
    before = catalog.requests
    assert synced(catalog, table) == SyncDone(instant=held.parameters[LAST_SYNCED])
    assert catalog.requests - before == 1, "a sync that has nothing to do reads the entry"


def partitions_come_and_go(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    for step, (change, expected) in enumerate(
        (
            (lambda: table.upsert(rows("a/eu", "b/us")), ["eu", "us"]),
            (lambda: table.upsert(rows("c/as")), ["as", "eu", "us"]),
            (lambda: table.delete_partitions(["eu"]), ["as", "us"]),
            (lambda: table.upsert(rows("a/eu")), ["as", "eu", "us"]),
            (lambda: table.insert_overwrite_table(rows("z/af")), ["af"]),
            (table.truncate, []),
            (lambda: table.upsert(rows("a/eu", "n/us")), ["eu", "us"]),
        )
    ):
        change()
        synced(catalog, table)
        assert partitions(catalog) == expected, step
        assert_agrees(catalog, table)


def several_commits_at_once_and_archived_ones(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu"))
    synced(catalog, table)
    for number in range(5):
        table.upsert(rows(f"k{number}/r{number}"))
    table.delete_partitions(["r1", "eu"])
    table.clean(keep_commits=1)
    table.archive(keep_commits=2, options={"hoodie.cleaner.commits.retained": "1"})
    synced(catalog, table)
    assert_agrees(catalog, table)
    assert partitions(catalog) == ["r0", "r2", "r3", "r4"]


def rolled_back_commit(world: World) -> None:
    from lakeindex.operations.table_services import rollback_table

    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu"))
    newest = table.upsert(rows("b/us")).instant
    synced(catalog, table)
    assert newest is not None
    rollback_table(table.uri, newest)
    synced(catalog, table)
    assert_agrees(catalog, table)
    assert partitions(catalog) == ["eu"]
    more = [table.upsert(rows(f"{region}/{region}")).instant for region in ("as", "af")]
    synced(catalog, table)
    for instant in reversed(more):
        rollback_table(table.uri, str(instant))
    table.upsert(rows("c/oc"))
    synced(catalog, table)
    assert_agrees(catalog, table)
    assert partitions(catalog) == ["eu", "oc"]


def schema_grows(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu"))
    synced(catalog, table)
    table.upsert(rows("b/us", note="x"), schema_mode="add")
    synced(catalog, table)
    assert entry(catalog).columns[-1].kind == "string"
    assert_agrees(catalog, table)
    table.upsert(rows("c/us", kind=pa.float64(), note="x"), schema_mode="widen")
    done = synced(catalog, table)
    assert "column amount: float, not double" in done.altered
    assert {one.name: one.kind for one in entry(catalog).columns}["amount"] == "double"
    assert_agrees(catalog, table)


def what_it_cannot_hold_is_refused(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu"))
    synced(catalog, table)
    held = entry(catalog)
    texts = tuple(replace(one, kind="double") if one.name == "ts" else one for one in held.columns)
    catalog.alter_table(held, replace(held, columns=texts), cascade=False)
    table.upsert(rows("b/us"))
    with pytest.raises(SchemaMismatchError, match="column ts is double in the catalog and int in the table"):
        synced(catalog, table)
    assert partitions(catalog) == ["eu"], "nothing is half done"
    with pytest.raises(SchemaMismatchError, match=r"partitioned by region string in the catalog, and by none"):
        synced(catalog, table, **{"hoodie.datasource.hive_sync.partition_fields": ""})


def changes_by_hand_are_mended(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu", "b/us"))
    synced(catalog, table)
    held = entry(catalog)
    parameters = {key: value for key, value in held.parameters.items() if key != "spark.sql.sources.provider"}
    columns = (*held.columns, CatalogColumn("by_hand", "int"))
    catalog.alter_table(held, replace(held, parameters={**parameters, "owner": "me"}, columns=columns), cascade=False)
    held = entry(catalog)
    catalog.drop_partitions(held, [("eu",)])
    catalog.add_partitions(held, [CatalogPartition(("by_hand",), f"{held.location}/by_hand")])
    catalog.move_partitions(held, [CatalogPartition(("us",), f"{held.location}/elsewhere")])
    found = sync_of(catalog, table).check()
    assert (len(found.added), len(found.moved), found.dropped) == (1, 1, [("by_hand",)])
    assert len(found.altered) == 2
    synced(catalog, table, **{"hoodie.meta.sync.incremental": "false"})
    assert_agrees(catalog, table)
    assert entry(catalog).parameters["owner"] == "me", "what is not ours stays"
    elsewhere = world.folder / "elsewhere"
    catalog.add_partitions(entry(catalog), [CatalogPartition(("far",), elsewhere.as_uri())])
    done = synced(catalog, table, **{"hoodie.meta.sync.incremental": "false"})
    assert (len(done.strange), partitions(catalog)) == (1, ["eu", "far", "us"])


def foreign_table_of_the_name_is_refused(world: World) -> None:
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu"))
    other = table_of(world, "other")
    other.upsert(rows("x/eu"))
    synced(catalog, other, **{"hoodie.datasource.hive_sync.table": "orders"})
    with pytest.raises(TableExistsError, match=r"another table shop.orders, of Hudi, at .*other"):
        synced(catalog, table)
    held = entry(catalog)
    foreign = replace(
        held,
        parameters={"EXTERNAL": "TRUE", "spark.sql.sources.provider": "iceberg"},
        input_format="org.apache.hadoop.mapred.TextInputFormat",
    )
    catalog.alter_table(held, foreign, cascade=False)
    with pytest.raises(TableExistsError, match="of another kind \\(iceberg\\)"):
        synced(catalog, table)
    assert entry(catalog).parameters.get(LAST_SYNCED) is None


def restored_away_though_it_had_begun_before_the_newest(world: World) -> None:
    """It was completed after it: the commit that the catalog knows is still there, and is the newest."""
    catalog, table = world.catalog(), table_of(world, hoodie__write__table__version="9")
    for region in ("de", "fr", "it"):
        table.upsert(rows(f"{region}/{region}"))
    timeline = world.folder / "orders" / ".hoodie" / "timeline"
    _, late, newest = sorted(path for path in timeline.glob("*.commit"))
    begun, ended = (path.stem.split("_") for path in (late, newest))
    late.rename(timeline / f"{begun[0]}_{int(ended[1]) + 5}.commit")
    synced(catalog, table)
    assert partitions(catalog) == ["de", "fr", "it"]
    table.restore(ended[0])
    assert newest_commit(table) == ended[0]
    synced(catalog, table)
    assert_agrees(catalog, table)
    assert partitions(catalog) == ["de", "it"]


def commit_that_others_told_of_and_that_was_taken_back(world: World) -> None:
    """By a sync of ours that died, or by one of Hudi's that ended: no commit on the timeline has its partitions."""
    from lakeindex.operations.table_services import rollback_table

    for died in (True, False):
        catalog, table = world.catalog(), table_of(world, f"orders{died}")
        name = {"hoodie.datasource.hive_sync.table": "orders"}
        table.upsert(rows("a/eu"))
        synced(catalog, table, **name)
        gone = table.upsert(rows("b/us")).instant
        if died:
            with pytest.raises(Killed):
                synced(Stopping(catalog, 2, done_first=True), table, **name)  # type: ignore[arg-type]
        else:
            held = entry(catalog)
            catalog.add_partitions(held, [CatalogPartition(("us",), f"{held.location}/us")])
        assert partitions(catalog) == ["eu", "us"]
        rollback_table(table.uri, str(gone))
        newest = table.upsert(rows("c/as")).instant
        if not died:
            held = entry(catalog)
            catalog.alter_table(
                held, replace(held, parameters={**held.parameters, LAST_SYNCED: str(newest)}), cascade=False
            )
        synced(catalog, table, **name)
        assert_agrees_after_a_kill(catalog, table)


VALUES: tuple[str | None, ...] = (
    "a b", "50%", "a/b", "é日", None, "A", "a", "a=b", "x:y", "q'\"", "[z]", " lead", "region=x", "a%2Fb", "🎉", "C:\\d"
)  # fmt: skip


def values_of_all_kinds(world: World) -> None:
    """Catalogs have the values of the rows, and folders as Hadoop names them, in whatever folder the table is."""
    catalog = world.catalog()
    for fields, style in ((("region",), "false"), (("region", "ts"), "true")):
        named = "none" if style == "false" else "region= %23"
        table = make_table(
            world.folder / named / "it is%20 é#" / "orders",
            schema=SCHEMA,
            keys=("id",),
            partitions=fields,
            hoodie__datasource__write__partitionpath__urlencode="true",
            hoodie__datasource__write__hive_style_partitioning=style,
            **({"hoodie__write__complex__keygen__new__encoding": "true"} if len(fields) > 1 else {}),
        )
        count = len(VALUES)
        columns = [[*map(str, range(count))], list(VALUES), [1] * count, [1.0] * count]
        table.upsert(pa.table(columns, schema=SCHEMA))
        synced(catalog, table)

        def seen(gone: int = 0, more: tuple[str, ...] = ("1",) * (len(fields) - 1)) -> list[tuple[str, ...]]:
            return sorted((value or "__HIVE_DEFAULT_PARTITION__", *more) for value in VALUES[gone:])

        assert sorted(one.values for one in catalog.partitions(entry(catalog))) == seen()
        folder = Path(table.uri.removeprefix("file://"))
        for one in catalog.partitions(entry(catalog)):
            assert [*Path(place_of_location(one.location)).glob("*.parquet")], one
        assert place_of_location(entry(catalog).location) == str(folder)
        assert sync_of(catalog, table).check() == SyncDone(instant=newest_commit(table))
        table.delete_partitions(live_paths_of(table, VALUES[:8]))
        synced(catalog, table)
        assert sorted(one.values for one in catalog.partitions(entry(catalog))) == seen(8)
        assert sync_of(catalog, table).check() == SyncDone(instant=newest_commit(table))
        world.drop_table()


def live_paths_of(table: LakeTable, values: Sequence[str | None]) -> list[str]:
    """Paths of the partitions whose first column has these values."""
    found = table.read(meta=True).to_pylist()
    return sorted({one["_hoodie_partition_path"] for one in found if one["region"] in values})


def two_partitions_of_one_value_are_refused(world: World) -> None:
    """A catalog would know only one of them, and hide the rows of the other."""
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/a-b", "b/a/b", "c/eu"))
    with pytest.raises(OptionError, match=r"a-b and .*a/b are both 'a-b' by SinglePartPartitionValueExtractor"):
        synced(catalog, table)
    assert catalog.table(DATABASE, "orders") is None, "nothing is half done"
    table.delete_partitions(["a/b"])
    synced(catalog, table)
    assert_agrees(catalog, table)
    table.upsert(rows("b/a/b", "d/us"))
    with pytest.raises(OptionError, match="are both 'a-b'"):
        synced(catalog, table)
    assert partitions(catalog) == ["a-b", "eu"]


def names_in_upper_case(world: World) -> None:
    """A catalog knows lower case; Spark's schema keeps what the table has."""
    catalog = world.catalog()
    schema = pa.schema([("Id", pa.string()), ("Region", pa.string()), ("TS", pa.int32()), ("Amount", pa.float32())])
    table = make_table(world.folder / "Orders", schema=schema, keys=("Id",), partitions=("Region",), ordering="TS")
    name = {"hoodie.datasource.hive_sync.table": "orders"}
    assert sync_of(catalog, table)._name == (DATABASE, "Orders"), "this is what a sync makes lower case"
    for key in ("a", "b"):
        table.upsert(pa.table([[key], [key.upper()], [1], [1.0]], schema=schema))
        synced(catalog, table, **name)
        assert_agrees(catalog, table, **name)
    held = entry(catalog)
    assert [one.name for one in held.columns[5:]] == ["id", "ts", "amount"]
    assert [one.name for one in held.partition_columns] == ["region"]
    assert held.parameters["spark.sql.sources.schema.partCol.0"] == "Region"
    assert partitions(catalog) == ["A", "B"]


def dropped_by_hand_it_is_made_again(world: World) -> None:
    """The table or its database, between syncs and at every call of one."""
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu", "b/us"))
    for drop in (world.drop_table, world.drop_database):
        synced(catalog, table)
        drop()
        assert sync_of(catalog, table).check().created
        assert synced(catalog, table).created
        assert_agrees(catalog, table)
        calls, turn = 3, 0
        while turn < calls:
            turn += 1
            table.upsert(rows(f"n/{drop.__name__}{turn}", note="x"), schema_mode="add")
            dropping = Stopping(catalog, turn, before=drop)
            done = synced(dropping, table)  # type: ignore[arg-type]
            assert done.created, (drop, turn)
            assert len(dropping.calls) >= turn
            assert_agrees(catalog, table)


def partition_with_older_columns(world: World) -> None:
    """A sync that was slow adds one with the columns that the table had; readers go by those of the partition."""
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu", "b/us"))
    synced(catalog, table)
    old = entry(catalog)
    table.upsert(rows("a/eu", note="x"), schema_mode="add")
    synced(catalog, table)
    for touched in (False, True):
        catalog.drop_partitions(old, [("us",)])
        catalog.add_partitions(old, [CatalogPartition(("us",), f"{old.location}/us")])
        assert [one.values for one in sync_of(catalog, table).check().moved] == [("us",)]
        if touched:
            table.upsert(rows("c/us", note="x"))
        done = synced(catalog, table, **{"hoodie.meta.sync.incremental": str(touched).lower()})
        assert [one.values for one in done.moved] == [("us",)]
        assert_agrees(catalog, table)


def killed_at_every_call(world: World) -> None:
    """A first sync, and one with everything at once, end at each call; the next one does what is left."""
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu", "b/us"))

    def change(turn: int) -> None:
        more = rows(f"n{turn}/new{turn}", **{f"c{number}": "x" for number in range(2, turn + 1)})
        table.upsert(more, schema_mode="add")
        gone = live_paths(table)[0]
        table.delete_partitions([gone])

    turn, calls = 0, 1
    for done_first in (False, True):
        at = 0
        while at < calls:
            at, turn = at + 1, turn + 1
            if turn > 1:
                change(turn)
            stopping = Stopping(catalog, at, done_first)
            with pytest.raises(Killed):
                synced(stopping, table)  # type: ignore[arg-type]
            whole = Stopping(catalog)
            synced(whole, table)  # type: ignore[arg-type]
            assert_agrees_after_a_kill(catalog, table)
            calls = 4 if turn > 1 else 1


def assert_agrees_after_a_kill(catalog: Catalog, table: LakeTable) -> None:
    """As :func:`assert_agrees`; the dead sync is still in the entry, an hour long."""
    held = entry(catalog)
    assert held.parameters[LAST_SYNCED] == newest_commit(table)
    assert partitions(catalog) == live_paths(table)


def slow_sync_of_an_older_commit(world: World) -> None:
    """At each of its calls a sync stands still, while commits are made and synced by another; then it goes on."""
    for at in range(1, 5):
        catalog, table = world.catalog(), table_of(world, f"orders{at}")
        name = {"hoodie.datasource.hive_sync.table": "orders"}
        table.upsert(rows("a/eu", "b/us"))
        synced(catalog, table, **name)
        table.upsert(rows("c/as", "d/af"))
        table.delete_partitions(["us"])

        def others(table: LakeTable = table, catalog: Catalog = catalog) -> None:
            table.delete_partitions(["as"])
            table.upsert(rows("b/us", "e/oc"))
            synced(catalog, table, **{"hoodie.datasource.hive_sync.table": "orders"})

        slow = Stopping(catalog, at, before=others)
        synced(slow, table, **name)  # type: ignore[arg-type]
        assert len(slow.calls) >= at
        synced(catalog, table, **name)
        assert_agrees(catalog, table, **name)


def a_slow_sync_that_dies_after_a_newer_one(world: World) -> None:
    """It stands still before it adds a partition, which a newer sync takes away; it adds it, and ends for ever."""
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu", "b/us"))
    synced(catalog, table)
    table.upsert(rows("c/as"))

    def others() -> None:
        table.delete_partitions(["as"])
        synced(catalog, table)
        assert partitions(catalog) == ["eu", "us"]

    slow = Stopping(catalog, 2, before=others)
    real_alter = catalog.alter_table
    seen: list[str] = []

    def dying(*args: Any, **named: Any) -> None:
        seen.append("alter")
        if len(seen) > 1 and slow.calls.count("add_partitions"):
            raise Killed
        real_alter(*args, **named)

    slow.inner = _with(catalog, "alter_table", dying)
    with pytest.raises(Killed):
        synced(slow, table)  # type: ignore[arg-type]
    assert partitions(catalog) == ["as", "eu", "us"], "this is what the dead one leaves"
    synced(catalog, table)
    assert_agrees_after_a_kill(catalog, table)


def _with(catalog: Catalog, name: str, call: Callable[..., Any]) -> Any:
    class Other:
        def __getattr__(self, asked: str) -> Any:
            return call if asked == name else getattr(catalog, asked)

    return Other()


class Many(Truth):
    """A table as if it had very many partitions."""

    paths: tuple[str, ...] = ()
    touched: frozenset[str] | None = None

    def changed_since(self, synced: Any, floors: Any) -> frozenset[str] | None:
        return None if synced is None else self.touched

    def all_paths(self) -> list[str]:
        return list(self.paths)

    def paths_alive(self, paths: Any) -> list[str]:
        return sorted(set(paths) & set(self.paths))


def very_many_partitions(world: World) -> dict[str, int]:
    """Requests by what was done: pages and changes in batches, and no more."""
    catalog, table = world.catalog(), table_of(world)
    table.upsert(rows("a/eu"))
    paths = [f"p{number:05}" for number in range(world.partitions)]

    def requests(paths: Sequence[str], touched: frozenset[str] | None, **options: str) -> int:
        def many(one: Truth) -> Many:
            fields = {name: getattr(one, name) for name in Truth.__struct_fields__}
            return Many(**fields, paths=tuple(paths), touched=touched)

        before = catalog.requests
        sync_of(catalog, table, many, **options).run()
        return catalog.requests - before

    found = {"create": requests(paths, None)}
    table.upsert(rows("b/us"))
    found["add one"] = requests([*paths, "us"], frozenset({"us", "p00000"}))
    found["compare all"] = requests([*paths, "us"], None, **{"hoodie.meta.sync.incremental": "false"})
    found["nothing"] = requests([*paths, "us"], frozenset())
    batches, pages = -(-world.partitions // catalog.batch), -(-world.partitions // catalog.page)
    assert found["create"] <= batches + pages + 14, found
    assert found["add one"] <= 12, found
    assert found["compare all"] <= pages + 3, found
    assert found["nothing"] == 1, found
    return found


STORIES: tuple[Callable[[World], object], ...] = (
    created_and_then_nothing_to_do,
    partitions_come_and_go,
    several_commits_at_once_and_archived_ones,
    rolled_back_commit,
    restored_away_though_it_had_begun_before_the_newest,
    commit_that_others_told_of_and_that_was_taken_back,
    values_of_all_kinds,
    two_partitions_of_one_value_are_refused,
    names_in_upper_case,
    dropped_by_hand_it_is_made_again,
    partition_with_older_columns,
    schema_grows,
    what_it_cannot_hold_is_refused,
    changes_by_hand_are_mended,
    foreign_table_of_the_name_is_refused,
    killed_at_every_call,
    slow_sync_of_an_older_commit,
    a_slow_sync_that_dies_after_a_newer_one,
    very_many_partitions,
)
