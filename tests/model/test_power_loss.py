"""The power is cut before every storage call of every operation of the protocol; running again makes it right."""

import os
from dataclasses import replace

import pytest

from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.verdicts import load_verdict
from tests.model.harness import Operation, count_calls
from tests.model.power import DiskStorage, Machine, cut_power_everywhere
from tests.model.test_faults import ARCHIVE, CLEAN, DROP, RESCALE, ROLLBACK, SWEEP, UNDO, UPSERT

SEEDS = int(os.environ.get("LAKEINDEX_POWER_SEEDS", "4"))
"""Random subsets of what was not synced, a power cut, beside the three plain ones."""


def swept_again(store: MemoryStorage) -> None:
    """Records of a dead run that were deleted, and not synced, may be back: the next sweep finds them."""
    SWEEP.run(store)
    SWEEP.check(store)


OPERATIONS = (UPSERT, ROLLBACK, DROP, replace(SWEEP, check=swept_again), RESCALE, UNDO, CLEAN, ARCHIVE)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_power_may_be_cut_at_some_calls(operation: Operation) -> None:
    report = cut_power_everywhere(operation, seeds=1, every=9, first=5)
    assert report.histories > 4 * (report.calls // 9)
    assert report.acknowledged


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_power_may_be_cut_at_every_call(operation: Operation) -> None:
    report = cut_power_everywhere(operation, seeds=SEEDS)
    assert report.histories == (report.calls + 1) * (3 + SEEDS)
    print(operation.name, report.calls, "calls,", report.histories, "histories")  # noqa: T201 - for docs/reliability.md


TORN = {
    "a lock": "/.lakeindex/lock/",
    "a claim": "/.lakeindex/instants/",
    "an attempt": "/attempts/",
    "a plan": "/plan-",
    "a verdict": "/.lakeindex/verdicts/",
    "a ledger entry": "/.lakeindex/ledger/",
    "a marker": "/.temp/",
    "a commit": ".commit",
}


@pytest.mark.parametrize("left", [b"", b"{", bytes(64)], ids=["empty", "cut short", "zeros"])
@pytest.mark.parametrize("what", TORN)
def test_any_record_may_be_torn_at_any_moment(what: str, left: bytes) -> None:
    """Also one that was synced: whatever tore it. A killed writer, one torn file, a retry."""
    torn = 0
    for number in range(5, count_calls(UPSERT) + 2, 5):
        machine = Machine(DiskStorage())
        store = machine.stores[0]
        store.restore(UPSERT.prepare())
        before = set(store.snapshot())
        machine.run_until(UPSERT.run, number)
        for path in store.snapshot():
            is_empty = path.endswith(".requested")
            if path not in before and TORN[what] in path and not is_empty and not _is_last_word(store, path):
                torn += 1
                objects = store.snapshot()
                store.restore(objects | {path: left})
                UPSERT.run(store)
                UPSERT.check(store)
                store.restore(objects)
    assert torn


def _is_last_word(store: MemoryStorage, path: str) -> bool:
    """A commit whose verdict has been shrunk: no other file says what it said."""
    if not path.endswith(".commit"):
        return False
    verdict = load_verdict(store, path.rpartition("/")[2].removesuffix(".commit"))
    return verdict is None or verdict.commit is None
