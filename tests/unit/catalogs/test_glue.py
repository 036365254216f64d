"""Glue, as moto's server plays it: the contract of catalogs, and what is Glue's alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from msgspec.structs import replace

import lakeindex as library
from lakeindex.catalogs.catalog import CatalogPartition
from lakeindex.catalogs.glue import GlueCatalog, glue_catalog
from lakeindex.catalogs.syncing import CatalogSynced
from lakeindex.errors import AccessDeniedError, OptionError, TableNotFoundError
from lakeindex.options.sync_options import SyncOptions
from tests.catalog_contract import (
    STORIES,
    World,
    assert_agrees,
    entry,
    live_paths,
    newest_commit,
    partitions,
    rows,
    synced,
    table_of,
    very_many_partitions,
)
from tests.cli_support import lakeindex, validate
from tests.moto_server import empty_glue, moto_here, use_aws


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with moto_here() as url:
        yield url


@pytest.fixture
def glue(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> GlueCatalog:
    use_aws(monkeypatch, endpoint)
    for name in ("AWS_PROFILE", "AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS"):
        monkeypatch.delenv(name, raising=False)
    catalog = glue_catalog(SyncOptions())
    check_versions(catalog)
    empty_glue(catalog._client)
    return catalog


def check_versions(catalog: GlueCatalog) -> None:
    """Refuse an update of another version than the current one, as Glue does and moto does not."""
    client = catalog._client

    def check(params: dict[str, Any], **_: Any) -> None:
        wanted = params.get("VersionId")
        assert wanted is not None
        name = params["TableInput"]["Name"]
        held = client.get_table(DatabaseName=params["DatabaseName"], Name=name)["Table"]
        if held["VersionId"] != wanted:
            response = {"Error": {"Code": "ConcurrentModificationException", "Message": "another version"}}
            raise client.exceptions.ClientError(response, "UpdateTable")

    client.meta.events.register("provide-client-params.glue.UpdateTable", check)


@dataclass
class GlueWorld:
    folder: Path
    glue: GlueCatalog
    partitions: int = 300

    def catalog(self) -> GlueCatalog:
        empty_glue(self.glue._client)
        return self.glue

    def drop_table(self, name: str = "orders") -> None:
        self.glue._client.delete_table(DatabaseName="shop", Name=name)

    def drop_database(self) -> None:
        empty_glue(self.glue._client)


@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
@pytest.mark.few(10)
def test_contract(story: Callable[[World], object], glue: GlueCatalog, tmp_path: Path):
    story(GlueWorld(tmp_path, glue))


class Answers:
    """What Glue answers instead of doing what it is asked, for the first calls of an action."""

    def __init__(self, catalog: GlueCatalog, action: str, code: str, times: int = 10**6) -> None:
        self.left, self.seen, self.code = times, 0, code
        catalog._client.meta.events.register(f"before-send.glue.{action}", self)

    def __call__(self, request: Any, **_: Any) -> AWSResponse | None:
        self.seen += 1
        if self.seen > self.left:
            return None
        body = f'{{"__type": "{self.code}", "Message": "said {self.code}"}}'.encode()
        return AWSResponse(request.url, 400, {}, Body(body))


class Body:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.data


def boto_sleeps_nothing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long boto3 would have slept. Other threads of the process sleep as ever: one that polls would not rest."""
    slept: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=slept.append))
    return slept


def test_throttled_calls_are_repeated(glue: GlueCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    slept = boto_sleeps_nothing(monkeypatch)
    for action in ("BatchCreatePartition", "UpdateTable", "GetTable", "BatchGetPartition"):
        Answers(glue, action, "ThrottlingException", times=3)
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu"))
    synced(glue, table)
    table.upsert(rows("b/us"))
    synced(glue, table)
    assert_agrees(glue, table)
    assert len(slept) == 12


class Unprocessed:
    """Glue, that leaves all but the first of what it is asked for to the next call."""

    def __init__(self, catalog: GlueCatalog) -> None:
        self.answers: list[int] = []
        catalog._client.meta.events.register("provide-client-params.glue.BatchGetPartition", self.asked)
        catalog._client.meta.events.register("after-call.glue.BatchGetPartition", self.said)

    def asked(self, params: dict[str, Any], **_: Any) -> dict[str, Any]:
        self._left = params["PartitionsToGet"][1:]
        return {**params, "PartitionsToGet": params["PartitionsToGet"][:1]}

    def said(self, parsed: dict[str, Any], **_: Any) -> None:
        self.answers.append(len(parsed["Partitions"]))
        parsed["UnprocessedKeys"] = self._left


def test_partitions_that_were_not_answered_for_are_asked_for_again(glue: GlueCatalog, tmp_path: Path):
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu", "b/us", "c/as"))
    synced(glue, table)
    there = [("as",), ("eu",), ("us",)]
    slow = Unprocessed(glue)
    assert [one.values for one in glue.partitions_of(entry(glue), there)] == there
    assert slow.answers == [1, 1, 1]


@pytest.mark.parametrize("code", ["ConcurrentModificationException", "VersionMismatchException"])
def test_an_entry_that_is_another_by_now_is_looked_at_again(code: str, glue: GlueCatalog, tmp_path: Path):
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu"))
    synced(glue, table)
    table.upsert(rows("b/us"))
    changed = Answers(glue, "UpdateTable", code, times=1)
    synced(glue, table)
    assert changed.seen > 1
    assert_agrees(glue, table)


def test_a_partition_that_is_there_or_gone_already_is_no_error(glue: GlueCatalog, tmp_path: Path):
    """Another sync was quicker."""
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu", "b/us"))
    synced(glue, table)
    held, new, gone = (
        entry(glue),
        CatalogPartition(("as",), f"{table.uri}/as"),
        CatalogPartition(("no",), f"{table.uri}/no"),
    )
    there = next(iter(glue.partitions_of(held, [("eu",)])))
    glue.add_partitions(held, [there, new])
    assert partitions(glue) == ["as", "eu", "us"]
    glue.move_partitions(held, [gone, replace(there, location=f"{table.uri}/elsewhere")])
    assert next(iter(glue.partitions_of(held, [("eu",)]))).location == f"{table.uri}/elsewhere"
    glue.drop_partitions(held, [gone.values, new.values])
    assert partitions(glue) == ["eu", "us"]


def test_a_missing_permission_is_named(glue: GlueCatalog, tmp_path: Path):
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu", "b/us"))
    synced(glue, table)
    table.upsert(rows("c/as", note="x"), schema_mode="add")
    table.delete_partitions(["eu"])
    for action in ("GetTable", "BatchGetPartition", "UpdateTable", "BatchDeletePartition", "BatchCreatePartition"):
        refused = Answers(glue, action, "AccessDeniedException")
        with pytest.raises(AccessDeniedError, match=f"Glue refuses {action} of shop.orders.*glue:{action}"):
            synced(glue, table)
        refused.left = 0


def test_without_the_database_it_is_made_or_not(glue: GlueCatalog, tmp_path: Path):
    table = table_of(GlueWorld(tmp_path, glue))
    with pytest.raises(TableNotFoundError, match="auto_create_database"):
        synced(glue, table, **{"hoodie.datasource.hive_sync.auto_create_database": "false"})
    synced(glue, table)
    assert entry(glue).location == Path(table.uri).as_uri()


SYNC = ("-o", "hoodie.datasource.hive_sync.database=shop")


def test_doors(glue: GlueCatalog, tmp_path: Path):
    table = table_of(GlueWorld(tmp_path, glue))
    options = {"lakeindex.sync": "glue", "hoodie.datasource.hive_sync.database": "shop"}

    def compared() -> CatalogSynced:
        [found] = table.sync(catalogs=["glue"], check=True, options=options).catalogs
        return found

    assert (compared().agrees, compared().created) == (False, True)
    assert table.upsert(rows("a/eu"), options=options).notes == ()
    assert compared().agrees
    held = entry(glue)
    less = {name: text for name, text in held.parameters.items() if name != "spark.sql.sources.provider"}
    glue.alter_table(held, replace(held, parameters=less), cascade=False)
    assert (compared().agrees, len(compared().altered), compared().added, compared().moved) == (False, 1, 0, 0)
    assert partitions(glue) == ["eu"]

    table.upsert(rows("b/us"))
    checked = lakeindex("sync", table.uri, "--catalog", "glue", "--check", "--json", *SYNC)
    found = json.loads(checked.stdout)
    validate("sync", found)
    assert (checked.exit_code, found["catalogs"][0]["added"], found["error"]["class"]) == (6, 1, "InvariantError")
    assert partitions(glue) == ["eu"]
    done = lakeindex("sync", table.uri, *SYNC, "-o", "lakeindex.sync=glue")
    assert done.exit_code == 0, done
    assert "glue shop.orders: did not agree" in done.stdout
    assert "1 added (us)" in done.stdout
    assert lakeindex("sync", table.uri, "--catalog", "glue", "--check", *SYNC).stdout == "glue shop.orders: agrees\n"
    assert lakeindex("sync", table.uri).exit_code == 2

    elsewhere = CatalogPartition(("far",), (tmp_path / "elsewhere").as_uri())
    glue.add_partitions(entry(glue), [elsewhere])
    assert (compared().agrees, compared().strange, compared().added) == (False, 1, 0), "a partition of other places"
    glue.drop_partitions(entry(glue), [elsewhere.values])

    named = library.open_table("glue://shop/orders")
    assert named.read(meta=False).num_rows == 2
    assert lakeindex("count", "glue://shop/Orders").stdout.split()[0] == "2"
    foreign = {"InputFormat": "org.apache.hadoop.mapred.TextInputFormat", "Location": (tmp_path / "texts").as_uri()}
    for other in ({"Name": "texts", "StorageDescriptor": foreign}, {"Name": "a_view"}):
        glue._client.create_table(DatabaseName="shop", TableInput=other)
    [one] = library.find_tables("glue://shop").tables
    assert (one.name, one.health.value) == ("orders", "ok")
    with pytest.raises(TableNotFoundError, match=r"glue knows no table shop\.nothing"):
        library.open_table("glue://shop/nothing")
    with pytest.raises(OptionError, match="write glue://database/table"):
        library.open_table("glue://shop/orders/eu")


def test_a_write_that_was_in_flight(glue: GlueCatalog, tmp_path: Path):
    """It began before the commit that the catalog knows, and completed after it: Hudi's writers may."""
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu"))
    table.upsert(rows("b/us"))
    table.upsert(rows("c/as"))
    timeline = tmp_path / "orders/.hoodie"
    early = sorted(timeline.glob("*.commit"))[1]
    moved = early.rename(timeline / "moved")
    synced(glue, table)
    assert partitions(glue) == ["as", "eu"]
    synced(glue, table)
    moved.rename(early)
    synced(glue, table)
    assert_agrees(glue, table)
    assert partitions(glue) == ["as", "eu", "us"]


def test_maintenance_syncs(glue: GlueCatalog, tmp_path: Path):
    table = table_of(GlueWorld(tmp_path, glue))
    table.upsert(rows("a/eu", "b/us"))
    options = {"lakeindex.sync": "glue", "hoodie.datasource.hive_sync.database": "shop"}
    [step] = table.maintain(["sync"], options=options).steps
    assert dict(step.counts) == {"partitions": 2, "entries": 1}
    [step] = table.maintain(["sync"]).steps
    assert not step.changed
    glue.move_partitions(entry(glue), [CatalogPartition(("eu",), f"{table.uri}/elsewhere")])
    table.upsert(rows("c/eu"))
    [step] = table.maintain(["sync"], options=options).steps
    assert (step.changed, step.counts["partitions"]) == (True, 1)
    more = {**options, "hoodie.datasource.hive_sync.table_properties": "owner=me"}
    [step] = table.maintain(["sync"], options=more).steps
    assert dict(step.counts) == {"partitions": 0, "entries": 1}
    held = entry(glue)
    told = tuple(replace(one, comment="by hand" if one.name == "amount" else None) for one in held.columns)
    glue.alter_table(held, replace(held, columns=told), cascade=False)
    table.upsert(rows("d/eu"))
    table.maintain(["sync"], options=options)
    assert {one.comment for one in entry(glue).columns if one.name == "amount"} == {"by hand"}, (
        "what nobody asks for stays"
    )
    assert_agrees(glue, table)


def test_a_sync_that_fails_hurts_no_commit(glue: GlueCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = table_of(GlueWorld(tmp_path, glue))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    boto_sleeps_nothing(monkeypatch)
    options = {"lakeindex.sync": "glue", "hoodie.datasource.hive_sync.database": "shop"}
    done = table.upsert(rows("a/eu"), options=options, batch_id="one")
    assert done.instant is not None
    assert done.notes[0].startswith(
        "the catalog glue does not know the commit yet; the next sync tells it: CatalogError"
    )
    monkeypatch.undo()
    use_aws(monkeypatch, glue._client.meta.endpoint_url)
    again = table.upsert(rows("a/eu"), options=options, batch_id="one")
    assert (again.noop, again.notes) == (True, ())
    assert partitions(glue) == ["eu"]


@pytest.mark.slow
def test_ten_thousand_partitions(glue: GlueCatalog, tmp_path: Path):
    assert very_many_partitions(GlueWorld(tmp_path, glue, 10_000))["add one"] == 8


@pytest.mark.slow
def test_every_write_is_followed_by_a_sync(glue: GlueCatalog, tmp_path: Path):
    """Whatever makes or takes back a commit: the catalog knows it, without another call."""
    table = table_of(GlueWorld(tmp_path, glue), hoodie__index__type="BUCKET")
    options = {"lakeindex.sync": "glue", "hoodie.datasource.hive_sync.database": "shop"}
    source = table_of(GlueWorld(tmp_path, glue), "source")
    source.upsert(rows("s/so"))
    new = table.upsert(rows("a/eu", "b/us"), options=options).instant
    writes: tuple[Callable[[], Any], ...] = (
        lambda: table.insert(rows("c/as"), options=options),
        lambda: table.bulk_insert(rows("d/af"), options=options),
        lambda: table.insert_overwrite(rows("e/eu"), options=options),
        lambda: table.delete(rows("e/eu"), options=options),
        lambda: table.delete(where="region = 'as'", options=options),
        lambda: table.update({"amount": "2.0"}, where="region = 'us'", options=options),
        lambda: table.replace_where(rows("f/us"), where="region = 'us'", options=options),
        lambda: table.apply(source.changes(), options=options),
        lambda: table.rescale(2, options=options),
        lambda: table.delete_partitions(["us"], options=options),
        lambda: table.truncate(options=options),
        lambda: table.insert_overwrite_table(rows("g/oc"), options=options),
        lambda: table.rollback(newest_commit(table) or "", options=options),
        lambda: table.index_migrate("SIMPLE", options=options),
        lambda: table.insert(rows("h/oc", "g/oc"), options=options),
        lambda: table.insert(rows("i/oc"), options={**options, "hoodie.parquet.small.file.limit": "0"}),
        lambda: table.cluster(options=options),
    )
    for number, write in enumerate(writes):
        done = write()
        assert getattr(done, "notes", ()) == (), number
        assert newest_commit(table) != new, number
        new = newest_commit(table)
        assert_agrees(glue, table)


def refused_action(call: Callable[[], object]) -> str | None:
    """The action that is refused, if the error names it as its cure, too."""
    try:
        call()
    except AccessDeniedError as error:
        return str(error.culprit) if str(error.culprit) in str(error.hint) else "another"
    return None


def test_every_missing_permission_is_named(glue: GlueCatalog, tmp_path: Path):
    """Each action that the page lists is refused until it was named once, while everything there is to sync is."""
    page = (Path(__file__).resolve().parents[3] / "docs/catalogs.md").read_text()
    listed = {f"glue:{one.split('`')[0]}" for one in page.partition("Needed permissions:")[2].split("`glue:")[1:]}
    table, named = table_of(GlueWorld(tmp_path, glue)), set[str]()
    table.upsert(rows("a/eu", "b/us"))
    refused = {name: Answers(glue, name.removeprefix("glue:"), "AccessDeniedException") for name in listed}

    def refuse(names: set[str]) -> None:
        for name, one in refused.items():
            one.seen, one.left = 0, 10**6 if name in names else 0

    for turn in range(len(listed) + 2):
        while action := refused_action(lambda: [synced(glue, table), *glue.tables("shop")]):
            assert action not in named, action
            named.add(action)
            refuse(listed - named)
        refuse(set())
        more = {f"c{at}": "x" for at in range(turn + 1)}
        table.upsert(rows("b/us", f"c/n{turn}", **more), schema_mode="add")
        table.delete_partitions([live_paths(table)[0]])
        moved = CatalogPartition(("us",), f"{entry(glue).location}/elsewhere")
        glue.move_partitions(entry(glue), [moved])
        refuse(listed - named)
        if named == listed:
            return
    assert named == listed
