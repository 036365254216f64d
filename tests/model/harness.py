"""The fault harness: fail the k-th storage call of an operation, for every k and every kind of fault, then run it again.

Reusable for any operation::

    report = fail_every_call(
        Operation("upsert", prepare=make_table, run=lambda store: upsert(store, batch), check=lambda store: ...)
    )

``run`` gets a store and does the whole operation; it is what a user would call again after an error, with the same
arguments. ``check`` compares the store with the oracle and raises AssertionError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lakeindex.errors import LakeIndexError
from lakeindex.storage.memory import Call, Fault, MemoryStorage

READS = frozenset({"list", "list_folder", "head", "read", "read_range", "sync", "sync_folders"})


@dataclass(frozen=True)
class Operation:
    """Something that is done to a table.

    Attributes:
        name: for messages.
        prepare: makes the objects of the initial store.
        run: does it; called again after a failure.
        check: compares the end with the oracle.
        store: makes an empty store; a named one where the operation opens it by its URI in other threads.
        meanwhile: what holds for readers after a fault, before the operation is done again.
    """

    name: str
    prepare: Callable[[], dict[str, bytes]]
    run: Callable[[MemoryStorage], object]
    check: Callable[[MemoryStorage], None]
    store: Callable[[], MemoryStorage] = MemoryStorage
    meanwhile: Callable[[MemoryStorage], None] = lambda _: None


@dataclass
class FaultReport:
    """What the harness did.

    Attributes:
        calls: storage calls of the operation without a fault.
        histories: faults injected.
        outcomes: how the failed run ended: ``fine`` if it coped, else the error's class.
    """

    calls: int = 0
    histories: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def count_calls(operation: Operation, initial: dict[str, bytes] | None = None) -> int:
    """Storage calls of one undisturbed run, which is checked, too."""
    store = _prepared(operation, operation.prepare() if initial is None else initial)
    before = store.calls
    operation.run(store)
    count = store.calls - before
    operation.check(store)
    return count


def fail_every_call(
    operation: Operation, *, faults: Iterable[Fault] = tuple(Fault), every: int = 1, first: int = 1
) -> FaultReport:
    """Fail each call once, with each fault; run again; check.

    Args:
        operation: what to do.
        faults: kinds of faults. Reads know only the plain error, the first, so that the others are not injected there.
        every: only every n-th call, for long operations.
        first: the first call to fail.

    Raises:
        AssertionError: an invariant does not hold, naming the call and the fault.
    """
    initial = operation.prepare()
    report = FaultReport(calls=count_calls(operation, initial))
    for number in range(first, report.calls + 1, every):
        for fault in faults:
            outcome, call = _one(operation, initial, number, fault)
            if call is None:
                continue
            report.histories += 1
            report.outcomes[outcome] += 1
            if call.name in READS:
                break
    return report


def _one(operation: Operation, initial: dict[str, bytes], number: int, fault: Fault) -> tuple[str, Call | None]:
    store = _prepared(operation, initial)
    start = store.calls
    hit: list[Call] = []

    def hook(call: Call) -> Fault | None:
        if call.number - start != number or (fault is not Fault.ERROR and call.name in READS):
            return None
        hit.append(call)
        return fault

    store.hook = hook
    outcome = "fine"
    try:
        operation.run(store)
    except LakeIndexError as error:
        outcome = type(error).__name__
    finally:
        store.hook = None
    if not hit:
        return outcome, None
    what = f"{operation.name}: call {number} ({hit[0].name} {hit[0].path}) failed with {fault.value}, run: {outcome}"
    try:
        operation.meanwhile(store)
        operation.run(store)
        operation.check(store)
    except (LakeIndexError, AssertionError) as error:
        raise AssertionError(f"{what}; then {type(error).__name__}: {error}") from error
    return outcome, hit[0]


def _prepared(operation: Operation, objects: dict[str, bytes]) -> MemoryStorage:
    store = operation.store()
    store.hook = None
    store.restore(objects)
    return store
