"""Hudi's locks beside ours: format, who may take them from whom, and that nobody publishes who has lost one."""

import datetime as dt
import json
from collections.abc import Callable

import pytest
from msgspec.structs import force_setattr, replace

from lakeindex.commit.recovery import recover
from lakeindex.commit.services.metadata_service import build_metadata_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import (
    FencedError,
    LockTimeoutError,
    OptionError,
    PendingInstantError,
    StorageError,
    TableCorruptError,
)
from lakeindex.format.file_names import crc_path
from lakeindex.format.instants import instant_time_of
from lakeindex.lock.hudi_lock import DRIFT_MS, MARGIN_MS, FileSystemLock
from lakeindex.lock.lock import LOCK_FOLDER
from lakeindex.lock.write_context import WriteContext
from lakeindex.options.parse import parse_options
from lakeindex.options.types import LockProvider, WriteConfig
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.storage.opening import open_storage
from lakeindex.table.handle import Table
from tests.model.world import CONFIG
from tests.unit.commit.protocol_support import BATCH, OTHER, START_MS, World, upsert

FILE = ".hoodie/lock"
OBJECT = ".hoodie/.locks/table_lock.json"
EXPIRE_MS = 2 * 60_000
VALID_MS = 300_000
FILE_SYSTEM = replace(CONFIG, lock_provider=LockProvider.FILE_SYSTEM, lock_expire_minutes=2)
STORAGE = replace(CONFIG, lock_provider=LockProvider.STORAGE)
BOTH = pytest.mark.parametrize("config", [FILE_SYSTEM, STORAGE], ids=["file system", "storage"])


def path_of(config: WriteConfig) -> str:
    return FILE if config.lock_provider is LockProvider.FILE_SYSTEM else OBJECT


def put_hudis(world: World, config: WriteConfig, *, valid_ms: int = VALID_MS, owner: str = "a-java-uuid") -> bytes:
    """What a writer of Hudi puts there that takes the lock now."""
    if config.lock_provider is LockProvider.FILE_SYSTEM:
        data = json.dumps({"lockThreadName": owner}).encode() if owner else b""
    else:
        until = world.clock.now_ms() + valid_ms
        data = f'{{"expired":false,"validUntil":{until},"owner":"{owner}"}}'.encode()
    world.store.write(path_of(config), data)
    return data


def context_of(world: World, config: WriteConfig, name: str = "ours") -> WriteContext:
    return WriteContext(Table.open(world.store), world.host(name), config)


def test_the_storage_lock_is_the_object_that_hudi_reads(world: World) -> None:
    with context_of(world, STORAGE).locked("test"):
        held = world.store.read(OBJECT)
        found = json.loads(held)
        assert held == json.dumps(found, separators=(",", ":")).encode()
        assert list(found) == ["expired", "validUntil", "owner"]
        assert found["expired"] is False
        assert found["validUntil"] == world.clock.now_ms() + VALID_MS
    assert json.loads(world.store.read(OBJECT)) == {**found, "expired": True}


def test_the_file_lock_is_the_file_that_hudi_reads_and_goes_with_its_holder(world: World) -> None:
    with context_of(world, FILE_SYSTEM).locked("test"):
        found = json.loads(world.store.read(FILE))
        assert list(found) == ["lockCreateTime", "lockThreadName", "lockStacksInfo"]
        assert found["lockStacksInfo"] == ["test"]
    assert FILE not in world.store.snapshot()


@BOTH
def test_a_living_writer_of_hudi_is_waited_for_named_and_never_robbed(world: World, config: WriteConfig) -> None:
    theirs = put_hudis(world, config)
    before = world.clock.now_ms()
    with pytest.raises(LockTimeoutError, match="a-java-uuid") as caught, context_of(world, config).locked("test"):
        pytest.fail("it was held")
    assert caught.value.culprit.endswith(path_of(config))
    assert world.clock.now_ms() - before >= config.lock_wait_seconds * 1000
    assert world.store.read(path_of(config)) == theirs
    assert json.loads(world.store.read(f"{LOCK_FOLDER}/000000000001.json"))["released"]


@BOTH
def test_a_dead_writer_of_hudi_is_passed_when_its_lock_has_expired_and_not_before(
    world: World, config: WriteConfig
) -> None:
    impatient = replace(config, lock_wait_seconds=0)
    put_hudis(world, config)
    limit = EXPIRE_MS if config.lock_provider is LockProvider.FILE_SYSTEM else VALID_MS + DRIFT_MS
    world.clock.sleep(limit / 1000)
    with pytest.raises(LockTimeoutError), context_of(world, impatient).locked("test"):
        pytest.fail("it was held")
    world.clock.sleep(0.001)
    with context_of(world, replace(config, lock_wait_seconds=1)).locked("test") as held:
        held.check()
        assert b"a-java-uuid" not in world.store.read(path_of(config))


def test_a_file_that_never_expires_is_never_taken_and_the_message_says_what_to_do(world: World) -> None:
    put_hudis(world, FILE_SYSTEM)
    world.clock.sleep(10 * 86_400)
    forever = replace(FILE_SYSTEM, lock_expire_minutes=0)
    with pytest.raises(LockTimeoutError) as caught, context_of(world, forever).locked("test"):
        pytest.fail("it was held")
    assert "delete this file" in (caught.value.hint or "")


@pytest.mark.parametrize("content", [b"", b'{"lockCreateTime"', b"[]"])
def test_hudis_file_which_says_nothing_is_held_by_whoever_made_it(world: World, content: bytes) -> None:
    world.store.write(FILE, content)
    with (
        pytest.raises(LockTimeoutError, match="a writer of Hudi since 20"),
        context_of(world, FILE_SYSTEM).locked("test"),
    ):
        pytest.fail("it was held")


def test_an_object_that_is_no_lock_is_refused(world: World) -> None:
    world.store.write(OBJECT, b'{"owner": "x"}')
    with pytest.raises(TableCorruptError, match=r"table_lock\.json"), context_of(world, STORAGE).locked("test"):
        pytest.fail("it was held")


@BOTH
@pytest.mark.parametrize("gone", [True, False], ids=["seen to be gone", "on another host"])
def test_the_lock_of_a_killed_run_is_cleared_as_soon_as_our_own_lock_is_had(
    world: World, config: WriteConfig, gone: bool
) -> None:
    killed = context_of(world, config, "killed").locked("test")
    killed.__enter__()
    if gone:
        world.gone.add("killed")
    before = world.clock.now_ms()
    with context_of(world, config).locked("test") as held:
        held.check()
    waited = world.clock.now_ms() - before
    assert waited < (1_000 if gone else 2 * config.lock_lease_seconds * 1000)


@BOTH
def test_a_run_at_another_table_is_not_taken_for_a_killed_one_of_this(world: World, config: WriteConfig) -> None:
    theirs = put_hudis(world, config, owner="lakeindex 0123456789abcdef 0123")
    with pytest.raises(LockTimeoutError), context_of(world, config).locked("test"):
        pytest.fail("it was held")
    assert world.store.read(path_of(config)) == theirs


@BOTH
def test_who_has_lost_the_lock_finds_out_at_its_check_and_leaves_the_next_ones_alone(
    world: World, config: WriteConfig
) -> None:
    with context_of(world, config).locked("test") as held:
        held.check()
        theirs = put_hudis(world, config)
        with pytest.raises(FencedError, match="Hudi's lock"):
            held.check()
        held.renew()
        with pytest.raises(FencedError):
            held.check()
    assert world.store.read(path_of(config)) == theirs


def test_a_file_lock_is_not_relied_on_when_it_is_about_to_expire(world: World) -> None:
    config = replace(FILE_SYSTEM, lock_lease_seconds=600)
    with context_of(world, config).locked("test") as held:
        world.clock.sleep((EXPIRE_MS - MARGIN_MS) / 1000)
        held.check()
        world.clock.sleep(0.001)
        with pytest.raises(FencedError, match="about to expire"):
            held.check()


def test_a_file_lock_that_never_expires_is_relied_on_for_ever(world: World) -> None:
    with context_of(world, replace(FILE_SYSTEM, lock_expire_minutes=0, lock_lease_seconds=86_400)).locked("t") as held:
        world.clock.sleep(80_000)
        held.check()


def test_a_file_lock_lasts_when_it_was_taken_and_is_gone_for_good_when_it_was_let_go_of(world: World) -> None:
    """After a power loss it still says whose it is, and does not come back; nor does the side file that Hadoop keeps."""
    calls: list[tuple[str, str]] = []
    world.store.write(crc_path(FILE), b"crc")
    with context_of(world, FILE_SYSTEM).locked("test"):
        world.store.hook = lambda call: calls.append((call.name, call.path))
        assert FILE in world.store.synced
    world.store.hook = None
    assert calls.index(("delete", FILE)) < calls.index(("sync_folders", ".hoodie"))
    assert crc_path(FILE) not in world.store.snapshot()


def test_a_file_lock_says_since_when_as_hudi_does(world: World) -> None:
    """In the machine's own time zone, with milliseconds."""
    world.clock.sleep(0.007)
    with context_of(world, FILE_SYSTEM).locked("test"):
        said = json.loads(world.store.read(FILE))["lockCreateTime"]
    parsed = dt.datetime.strptime(said, "%Y-%m-%d %H:%M:%S.%f").astimezone()
    assert round(parsed.timestamp() * 1000) == world.clock.now_ms()
    assert len(said) == len("2026-11-28 16:00:00.007")


def test_a_storage_lock_is_renewed_when_it_is_due(world: World) -> None:
    with context_of(world, STORAGE).locked("test") as held:
        first = world.store.read(OBJECT)
        world.clock.sleep(29.999)
        held.renew()
        assert world.store.read(OBJECT) == first
        world.clock.sleep(0.001)
        held.renew()
        assert json.loads(world.store.read(OBJECT))["validUntil"] == world.clock.now_ms() + VALID_MS


@BOTH
def test_our_own_lock_is_kept_while_hudis_is_waited_for(world: World, config: WriteConfig) -> None:
    put_hudis(world, config)
    with pytest.raises(LockTimeoutError), context_of(world, config).locked("test"):
        pytest.fail("it was held")
    ours = json.loads(world.store.read(f"{LOCK_FOLDER}/000000000001.json"))
    assert ours["expires_ms"] > world.clock.now_ms()


def test_each_of_the_two_locks_is_kept_and_let_go_of_whatever_becomes_of_the_other(world: World) -> None:
    def fails(path: str) -> Callable[[Call], Fault | None]:
        return lambda call: Fault.ERROR if call.path.startswith(path) and call.name in ("write", "replace") else None

    with context_of(world, STORAGE).locked("test") as held:
        world.clock.sleep(60)
        world.store.hook = fails(LOCK_FOLDER)
        with pytest.raises(StorageError):
            held.renew()
        assert json.loads(world.store.read(OBJECT))["validUntil"] == world.clock.now_ms() + VALID_MS
        world.store.hook = fails(OBJECT)
    world.store.hook = None
    assert json.loads(world.store.read(f"{LOCK_FOLDER}/000000000001.json"))["released"]
    assert not json.loads(world.store.read(OBJECT))["expired"]


@BOTH
def test_a_late_beat_takes_no_lock_that_was_let_go_of(world: World, config: WriteConfig) -> None:
    with context_of(world, config).locked("test") as held:
        held.check()
    before = world.store.snapshot()
    world.clock.sleep(3_600)
    held.renew()
    assert world.store.snapshot() == before


def test_the_age_of_a_file_lock_is_that_of_its_file(world: World) -> None:
    """Not of the attempt, which may have waited for longer than that."""
    put_hudis(world, FILE_SYSTEM)
    lock = FileSystemLock(world.store, FILE, world.clock, "mark 1", "mark", expire_ms=EXPIRE_MS, purpose="test")
    assert "a-java-uuid" in (lock.try_acquire() or "")
    world.clock.sleep((EXPIRE_MS - 1) / 1000)
    world.store.delete(FILE)
    assert lock.try_acquire() is None
    lock.check()
    world.clock.sleep((EXPIRE_MS - MARGIN_MS + 1) / 1000)
    with pytest.raises(FencedError, match="about to expire"):
        lock.check()


@pytest.mark.parametrize("fault", [Fault.DONE_BUT_FAILED, Fault.TORN])
@BOTH
def test_a_lost_answer_loses_no_lock(world: World, config: WriteConfig, fault: Fault) -> None:
    """Every put of the lock is asked for once without an answer: of two kinds, done or not."""
    asked: set[tuple[str, int]] = set()

    def hook(call: Call) -> Fault | None:
        key = (call.name, len(world.store.snapshot().get(path_of(config), b"")))
        if call.path != path_of(config) or call.name not in ("create", "replace", "delete") or key in asked:
            return None
        asked.add(key)
        return fault

    world.store.hook = hook
    with context_of(world, config).locked("test") as held:
        held.check()
    world.store.hook = None
    assert asked
    with context_of(world, replace(config, lock_wait_seconds=0), "next").locked("test") as held:
        held.check()


@BOTH
def test_a_run_that_has_lost_the_lock_publishes_nothing_and_plans_again(world: World, config: WriteConfig) -> None:
    """Just before it makes sure that it still has both locks, a writer of Hudi has come and gone."""
    came = False

    def hook(call: Call) -> None:
        nonlocal came
        held = objects().get(path_of(config), b"true")
        if came or (call.name, call.path) != ("list_folder", LOCK_FOLDER) or b"true" in held:
            return
        if any(b"publishing" in data for path, data in objects().items() if path.startswith(LOCK_FOLDER)):
            came = True
            world.store.hook = None
            put_hudis(world, config, valid_ms=-VALID_MS)
            world.store.hook = hook

    objects = world.store.snapshot
    world.store.hook = hook
    instant = upsert(world.store, BATCH, world.host("writer"), config=replace(config, lock_wait_seconds=600))
    assert came
    timeline = Table.open(world.store).load_timeline()
    assert instant in timeline.completed_write_times
    assert len(timeline.undone.instants) == 1


@BOTH
def test_writers_of_hudi_that_share_the_lock_may_be_in_flight(world: World, config: WriteConfig) -> None:
    theirs = instant_time_of(START_MS)
    world.put_pending(theirs)
    with pytest.raises(PendingInstantError):
        world.upsert(BATCH)
    instant = upsert(world.store, BATCH, world.host("writer"), config=config)
    timeline = Table.open(world.store).load_timeline()
    assert instant in timeline.completed_write_times
    assert theirs in timeline.pending_times
    with pytest.raises(PendingInstantError):
        rollback_instant(Table.open(world.store), instant, config, host=world.host("rollback"))
    with pytest.raises(PendingInstantError):
        build_metadata_table(Table.open(world.store), config, host=world.host("builder"))


def test_a_dead_writer_of_hudi_is_rolled_back_though_it_shared_the_lock(world: World) -> None:
    world.put_pending(instant_time_of(START_MS))
    world.clock.sleep(CONFIG.pending_foreign_max_age_seconds + 1)
    context = context_of(world, STORAGE)
    with context.locked("recovery") as held:
        recover(context, held)
    assert not Table.open(world.store).load_timeline().pending_writes


def test_a_lock_may_lie_elsewhere(world: World) -> None:
    config = replace(FILE_SYSTEM, lock_path="memory://elsewhere")
    with context_of(world, config).locked("test"):
        assert [*MemoryStorage.named("elsewhere").snapshot()] == ["lock"]
    assert not MemoryStorage.named("elsewhere").snapshot()


def on_a_store(uri: str, config: WriteConfig) -> Callable[[], None]:
    def run() -> None:
        table = Table.open(World().store)
        force_setattr(table, "storage", open_storage(uri))
        with WriteContext(table, World().host("ours"), config).locked("test"):
            pytest.fail("it was held")

    return run


def test_a_provider_that_cannot_work_on_the_store_is_refused_as_by_hudi(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with pytest.raises(OptionError, match="creates files atomically") as caught:
        on_a_store("s3://bucket/table", FILE_SYSTEM)()
    assert str(LockProvider.STORAGE) in (caught.value.hint or "")
    for uri in (f"{tmp_path}", "hdfs://namenode:8020/table"):
        with pytest.raises(OptionError, match="conditional writes") as caught:
            on_a_store(uri, STORAGE)()
        assert str(LockProvider.FILE_SYSTEM) in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("provider", "why"),
    [
        ("org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider", "ZooKeeper"),
        ("org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider", "ZooKeeper"),
        ("org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider", "Hive metastore"),
        ("org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider", "DynamoDB"),
        ("org.apache.hudi.aws.transaction.lock.DynamoDBBasedImplicitPartitionKeyLockProvider", "DynamoDB"),
        ("org.apache.hudi.client.transaction.lock.InProcessLockProvider", "one process"),
        ("org.apache.hudi.client.transaction.lock.NoopLockProvider", "nothing"),
        ("com.example.Mine", "cannot be 'com.example.Mine'"),
    ],
)
def test_other_providers_are_refused_by_name_with_what_is_valid(provider: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        parse_options({"hoodie.write.lock.provider": provider})
    assert all(one in (caught.value.hint or "") for one in LockProvider)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}, "needs a lock"),
        ({"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}, "NON_BLOCKING"),
        (
            {"hoodie.write.concurrency.mode": "single_writer", "hoodie.write.lock.provider": LockProvider.STORAGE},
            "contradicts",
        ),
        ({"hoodie.write.lock.filesystem.path": "/x"}, "no meaning"),
        (
            {"hoodie.write.lock.filesystem.path": "/x", "hoodie.write.lock.provider": LockProvider.STORAGE},
            "no meaning",
        ),
        ({"hoodie.write.lock.storage.validity.timeout.secs": 299}, "less than 10 times"),
        ({"hoodie.write.lock.storage.renew.interval.secs": 31}, "less than 10 times"),
        ({"hoodie.clean.failed.writes.policy": "EAGER"}, "LAZY"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, str | int], why: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(options)
    assert why in f"{caught.value.message} {caught.value.hint}"


def test_hudis_whole_configuration_of_a_shared_table_can_be_given() -> None:
    config = parse_options(
        {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.clean.failed.writes.policy": "LAZY",
            "hoodie.write.lock.provider": LockProvider.FILE_SYSTEM,
            "hoodie.write.lock.filesystem.path": "/locks/orders",
            "hoodie.write.lock.filesystem.expire": 30,
            "hoodie.write.lock.client.num_retries": 50,
        }
    )
    assert (config.lock_provider, config.lock_path, config.lock_expire_minutes) == (
        LockProvider.FILE_SYSTEM,
        "/locks/orders",
        30,
    )
    assert len(config.notes) == 2


def test_two_batches_in_turn_leave_no_lock_and_need_no_clearing(world: World) -> None:
    for batch in (BATCH, OTHER):
        upsert(world.store, batch, world.host("writer"), config=FILE_SYSTEM)
        assert FILE not in world.store.snapshot()
