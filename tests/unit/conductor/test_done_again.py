"""A change that counts twice if it is made twice, done again as the error of its first try says."""

from __future__ import annotations

import re
from itertools import product

import pytest

from lakeindex.errors import LakeIndexError, ObjectNotFoundError, TimelineChangedError, UnknownOutcomeError
from lakeindex.storage.memory import Call, Fault
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, content_of
from tests.meanwhile import SMALL, MemoryTable
from tests.scheduling import some_of

ROWS = [Row("a", "x", 1, "1"), Row("b", "y", 1, "1"), Row("c", "x", 1, "1")]
ONCE = {"v": "concat(v, '+')"}


def change(world: MemoryTable, batch_id: str | None) -> None:
    world.table.update(
        ONCE,
        where="id <> 'c'",
        batch_id=batch_id,
        checkpoints=f"memory://{world.name}-runs",
        options=SMALL,
        runner=LocalRunner(1),
    )


def named(error: LakeIndexError) -> str | None:
    """The batch id that an error asks for."""
    found = re.search(r"batch_id='([^']+)' \(--batch-id ([^) ]+)\)", str(error))
    assert found is None or found[1] == found[2]
    return None if found is None else found[1]


@pytest.mark.parametrize(
    ("version", "index", "fault", "first"),
    some_of(
        [
            ("9", "RECORD_INDEX", Fault.ERROR, "/verdicts/"),
            *product(("6", "9"), ("BLOOM", "RECORD_INDEX"), (Fault.ERROR, Fault.DONE_BUT_FAILED), ("",)),
        ],
        lambda one: bool(one[3]),
        pytest.mark.slow,
    ),
)
def test_a_change_whose_error_was_followed_counts_once(version: str, index: str, fault: Fault, first: str) -> None:
    world = MemoryTable.holding(ROWS, index=index, hoodie__write__table__version=version)
    before, start = world.store.snapshot(), world.store.calls
    seen: list[Call] = []
    world.store.hook = seen.append
    change(world, None)
    changed, asked = content_of(world.table), 0
    whole = [call.number - start for call in seen]
    at = next(n for n, call in enumerate(seen) if call.name == "create" and first in call.path) if first else 0
    for number in whole[at :: 2 if first else 1]:
        world.store.restore(before)
        start, hit = world.store.calls, list[Call]()

        def hook(call: Call, number: int = number, start: int = start, hit: list[Call] = hit) -> Fault | None:
            if call.number - start != number:
                return None
            hit.append(call)
            return fault

        world.store.hook = hook
        try:
            change(world, None)
        except LakeIndexError as error:
            world.store.hook = None
            asked += named(error) is not None
            change(world, named(error))
        world.store.hook = None
        assert content_of(world.table) == changed, hit
    assert asked


@pytest.mark.parametrize(("kind", "first"), [(ObjectNotFoundError, 1), (TimelineChangedError, 2)])
@pytest.mark.few(1)
def test_what_tells_that_a_table_has_moved_tells_nothing_of_a_decided_change(
    kind: type[LakeIndexError], first: int
) -> None:
    """The run planned anew then, found its own verdict, and said that nothing had to be done: of a commit that was not there."""
    world = MemoryTable.holding(ROWS)
    before, start = world.store.snapshot(), world.store.calls
    seen: list[Call] = []
    world.store.hook = seen.append
    change(world, None)
    changed = content_of(world.table)
    decided = next(n for n, call in enumerate(seen) if call.name == "create" and "/verdicts/" in call.path)
    failed = 0
    for number in [call.number - start for call in seen][decided + first :: 3]:
        world.store.restore(before)
        start = world.store.calls

        def hook(call: Call, number: int = number, start: int = start) -> None:
            if call.number - start == number:
                raise kind("gone", hint="run again")

        world.store.hook = hook
        try:
            change(world, None)
        except UnknownOutcomeError as error:
            failed += 1
            world.store.hook = None
            change(world, named(error))
        world.store.hook = None
        assert content_of(world.table) == changed
    assert failed > 1
