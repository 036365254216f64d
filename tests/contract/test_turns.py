"""Random turns: what others do before some storage calls of an operation or a reader, and behind one that failed or was killed.

Afterwards the table is as if all had been done one after the other, in an order that leaves that of the others alone, and nothing
of it is broken. Who cannot go on says so with an error of the library, has changed nothing, and may try again.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any, Final

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import (
    ConflictError,
    IndexNotBuiltError,
    InputError,
    LakeIndexError,
    MetadataTableError,
    TableUnsupportedError,
    UsageError,
)
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.handle import Table
from tests.contract.test_lives import AFTER, INDEXES, Life, Operation, Past, RefusedError, born
from tests.model.harness import READS
from tests.model.power import pass_for_dead
from tests.model.scheduling import Killed
from tests.scheduling import some_of

pytestmark = pytest.mark.usefixtures("time_leaps")

TRIALS: Final = int(os.environ.get("LAKEINDEX_CONTRACT_EXAMPLES", "24"))
ALL_INDEXES: Final = (*INDEXES, "RECORD_LEVEL_INDEX")
REFUSALS: Final = (UsageError, InputError, TableUnsupportedError, IndexNotBuiltError)
BESIDE: Final = {"lakeindex.lock.wait": "0"}  # who comes in between does not wait for who stands still
ALONE: Final = {"lakeindex.lock.lease": "2", "lakeindex.lock.wait": "30"}
_numbers = count()


class Turns(Life):
    """A life with more operations, and readers."""

    def operations(self) -> list[Callable[[], Operation]]:
        """Those that can be done; what writes rows more often."""
        found = [self.upsert, self.insert, self.delete, self.delete_where, self.update, self.overwrite, self.grow] * 3
        found += [self.delete_partitions, self.cluster, self.restore, self.rollback, self.savepoint]
        found += [self.savepoint_delete, self.clean, self.archive, self.maintain, self.compact]
        found += [self.build_partition, self.drop_partition]
        found += [self.rescale] * (self.index == "BUCKET")
        found += [self.rebuild_metadata] * (self.index != "RECORD_INDEX")
        found += [self.index_build] * self.index.startswith("RECORD_")
        found += [self.migrate] * (self.index in AFTER)
        return found

    def readers(self) -> list[Reader]:
        """What may be asked for, and whether an answer fits what the table was."""
        where, chooses = self.condition()
        since = self.dice.choice(list(self.states))
        ids = [row["id"] for row in self.rows.values()][::2]

        def of(found: pa.Table, past: Past, chosen: Callable[[dict[str, Any]], bool] = bool) -> bool:
            then = replace(self, past=past)
            return then.told(found) == then.told_rows({key: row for key, row in then.rows.items() if chosen(row)})

        def told(found: Any, past: Past) -> bool:
            then = replace(self, past=past)
            changed = then.changed(self.states[since].rows, found.to_pylist())
            return then.told_rows(changed) == then.told_rows(then.rows)

        def was(found: pa.Table, _: Past) -> bool:
            return self.told(found) == self.told_rows(self.states[since].rows)

        def is_ok(found: Any, _: Past) -> bool:
            return bool(found.ok)

        found = [
            Reader("read", lambda: self.table.read(meta=False), of),
            Reader(
                "scan", lambda: self.table.scan(where=where).to_arrow(), lambda found, past: of(found, past, chooses)
            ),
            Reader(
                "get", lambda: self.table.get(ids).rows, lambda found, past: of(found, past, lambda r: r["id"] in ids)
            ),
            Reader("count", self.table.count, lambda found, past: found == len(past[-1].rows)),
            Reader("changes", lambda: self.table.changes(since=since).to_arrow(), told),
            Reader("as of", lambda: self.table.read(meta=False, as_of=since), was),
            Reader("check", self.table.check, is_ok),
            Reader("deep check", lambda: self.table.check(deep=True), is_ok),
        ]
        return [
            *found,
            *[Reader("verify", self.table.metadata_verify, is_ok)] * bool(self.table.metadata_status().partitions),
        ]


@dataclass(frozen=True)
class Reader:
    """A question, and whether the answer is right of a table that was so."""

    name: str
    asks: Callable[[], Any]
    fits: Callable[[Any, Past], bool]


@lru_cache(2)
def grown(number: int) -> tuple[Turns, dict[str, bytes]]:
    """A table some steps old."""
    life = born(f"memory://{_name()}", number, ALL_INDEXES[number % len(ALL_INDEXES)])
    one = Turns(**vars(life))
    one.options["hoodie.metadata.compact.max.delta.commits"] = one.dice.choice(["1", "2", "30"])
    one.options["lakeindex.parallelism"] = "1"
    one.step(one.upsert)
    one.look_back()
    for clock in range(1, one.dice.randint(3, 6)):
        one.clock = clock
        one.step(one.chosen())
        one.look_back()
    while not one.rows:
        one.step(one.upsert)
        one.look_back()
    store = MemoryStorage.named(one.table.uri.removeprefix("memory://"))
    return one, store.snapshot()


def _name() -> str:
    return f"turns-{next(_numbers)}"


Happens = Callable[[], object]


class Trial:
    """A copy of a table, what is done to it, and what is found afterwards."""

    def __init__(self, number: int, world: int) -> None:
        origin, objects = grown(world)
        self.dice = random.Random(number)
        name = _name()
        self.store, self.runs = (MemoryStorage.named(f"{name}{ending}") for ending in ("", ".lakeindex"))
        self.store.restore(objects)
        self.life = replace(origin, table=LakeTable(self.store.uri), dice=self.dice, clock=origin.clock + 1)
        self.mode = self.dice.choice(["beside", "beside", "read", "fault", "kill"])
        self.said = [f"trial {number}, world {world}: {self.life.index} {self.mode}"]
        self.first = self.asked() if self.mode == "read" else self.drawn()

    def drawn(self) -> Operation:
        drawn = self.dice.choice(self.life.operations())
        self.said.append(drawn.__name__)
        self.life.clock += 1
        return drawn()

    def asked(self) -> Reader:
        found = self.dice.choice(self.life.readers())
        self.said.append(found.name)
        return found

    def rehearsed(self) -> list[Call]:
        """The calls that it makes where nothing happens."""
        calls: list[Call] = []
        self.store.hook = calls.append
        if isinstance(self.first, Reader):
            self.first.asks()
        else:
            self.attempt(self.first, "first", {} if self.mode == "beside" else ALONE)
        self.store.restore({})
        self.runs.restore({})
        return calls

    def attempt(self, operation: Operation, name: str, more: dict[str, str]) -> LakeIndexError | None:
        """Do it; the error that it ends with."""
        try:
            operation.does(options=self.life.options | more, batch_id=name)
        except LakeIndexError as error:
            self.said.append(f"{name}: {error!r}"[:300])
            return error
        return None

    def play(self, calls: list[Call]) -> None:
        """All of it; afterwards what must hold."""
        others = [self.drawn() for _ in range(self.dice.randint(1, 3))]
        if isinstance(self.first, Reader):
            self.read(self.first, others, calls)
        elif self.mode == "beside":
            self.beside(self.first, others, calls)
        else:
            self.again(self.first, others, calls)

    def overtaken(self, others: list[Operation], calls: list[Call]) -> tuple[list[Operation], Happens]:
        """Others come in between from now on. Those that were not refused, and what lets come who did not yet."""
        due = sorted(self.chosen(calls) for _ in others)
        todo, done = list(zip(due, others, strict=True)), list[Operation]()
        number, is_between = 0, False

        def come() -> None:
            nonlocal is_between
            _, other = todo.pop(0)
            is_between = True
            error = self.attempt(other, f"other {len(todo)}", BESIDE)
            is_between = False
            assert error is None or isinstance(error, (ConflictError, *REFUSALS)), self.said
            if error is None:
                done.append(other)

        def hook(_: Call) -> None:
            nonlocal number
            number += not is_between
            while not is_between and todo and todo[0][0] <= number:
                come()

        def rest() -> None:
            self.store.hook = None
            while todo:
                come()

        self.store.hook = hook
        return done, rest

    def beside(self, first: Operation, others: list[Operation], calls: list[Call]) -> None:
        done, rest = self.overtaken(others, calls)
        error = self.attempt(first, "first", {})
        self.store.hook = None
        if error is not None:
            assert isinstance(error, (ConflictError, *REFUSALS)), self.said
            again = self.attempt(first, "first", {})
            assert isinstance(again, REFUSALS) or (again is None and error.transient), self.said
            error = again
        rest()
        self.check(self.orders(done, first if error is None else None))

    def again(self, first: Operation, others: list[Operation], calls: list[Call]) -> None:
        """It fails or is killed at some call, others come, and it is tried again."""
        at, fault, number = self.chosen(calls), self.dice.choice(list(Fault)), 0

        def hook(call: Call) -> Fault | None:
            nonlocal number
            number += 1
            if self.mode == "kill" and number >= at:
                raise Killed
            return (Fault.ERROR if call.name in READS else fault) if number == at else None

        def end(_: Call) -> None:
            if number >= at:
                raise Killed

        self.store.hook = hook
        self.runs.hook = end if self.mode == "kill" else None
        error: BaseException | None
        try:
            error = self.attempt(first, "first", ALONE)
        except Killed as killed:
            error = killed
        self.store.hook = self.runs.hook = None
        self.said.append(f"{calls[at - 1]} {fault}")
        pass_for_dead(self.store)
        done = []
        for n, other in enumerate(others):
            refused = self.attempt(other, f"other {n}", ALONE)
            assert refused is None or isinstance(refused, REFUSALS), self.said
            if refused is None:
                done.append(other)
        again = None if error is None else self.attempt(first, "first", ALONE)
        assert again is None or isinstance(again, REFUSALS), self.said
        without = [] if again is None else self.orders(done, None)
        self.check([*self.orders(done, first), *without])

    def read(self, reader: Reader, others: list[Operation], calls: list[Call]) -> None:
        done, rest = self.overtaken(others, calls)
        try:
            found = reader.asks()
        except (UsageError, MetadataTableError) as error:
            self.said.append(repr(error)[:300])
            assert reader.name in ("changes", "as of", "verify"), self.said
        else:
            between = [past for n in range(len(done) + 1) for past in self.orders(done[:n], None)]
            assert any(reader.fits(found, past) for past in between), (self.said, found)
        rest()
        self.check(self.orders(done, None))

    def orders(self, done: list[Operation], first: Operation | None) -> list[Past]:
        """What the table may be by now."""
        every = [done] if first is None else [[*done[:n], first, *done[n:]] for n in range(len(done) + 1)]
        found = []
        for order in every:
            past = self.life.past
            with suppress(RefusedError):
                for one in order:
                    past = one.makes(past)
                found.append(past)
        return found

    def check(self, pasts: list[Past]) -> None:
        table = self.life.table
        found = table.read(meta=False)
        lives = [replace(self.life, past=past) for past in pasts]
        fitting = [one for one in lives if one.told(found) == one.told_rows(one.rows)]
        assert fitting, (self.said, lives[0].told(found), [one.told_rows(one.rows) for one in lives])
        report = table.check(deep=True)
        assert report.ok, (self.said, report.violations)
        if table.metadata_status().partitions:
            verified = table.metadata_verify()
            assert verified.ok, (self.said, verified)
        for instant, stand in fitting[0].states.items():
            fitting[0].check_state(instant, stand.rows)
        if found.num_rows:
            assert table.upsert(found, options=self.life.options | ALONE).inserts == 0, self.said
            assert fitting[0].told(table.read(meta=False)) == fitting[0].told(found), self.said
        assert not Table.open(self.store).load_timeline().pending_writes, self.said
        self.store.restore({})
        self.runs.restore({})

    def chosen(self, calls: list[Call]) -> int:
        """One of the calls, each kind of them as likely as any."""
        kinds: dict[str, list[int]] = {}
        for number, call in enumerate(calls, 1):
            path = re.sub(r"[0-9a-f-]{4,}|[0-9]+", "#", call.path)
            kinds.setdefault(f"{call.name} {path}", []).append(number)
        return self.dice.choice(self.dice.choice(list(kinds.values())))


def play(number: int) -> None:
    """A trial at a table that two others are made of, too."""
    Trial(number, number // 3).play(Trial(number, number // 3).rehearsed())


@pytest.mark.parametrize("number", some_of(range(TRIALS), lambda number: number % 3 == 0, pytest.mark.slow))
@pytest.mark.few(4)
def test_any_turns_are_those_of_some_order(number: int) -> None:
    play(number)


@pytest.mark.model
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", [1, 2, 3], ids="part{}".format)
def test_more_turns_are_those_of_some_order(first: int) -> None:
    for number in range(first * 1_000, first * 1_000 + 400):
        play(number)
