"""What a runner is, and what a task's work cost.

A stage is a driver function that makes tasks (frozen, picklable values) and a module-level function that does one. A
runner only schedules: threads of this process, or Spark. Results are metadata, never rows: rows go to checkpoints.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from lakeindex.frozen import Frozen
from lakeindex.options.types import WriteConfig
from lakeindex.storage import StoreOptions, current_options, using
from lakeindex.tasks.memory_bound import current_bound, memory_share
from lakeindex.tasks.meter import Meter, StageCost
from lakeindex.time_spent import Spent, counting, current_account, handing_over

_BEFORE_A_START: Final = 4
"""So many times as much is done nearby while there are no executors:
in the ten seconds that they take to start, two cores rewrite 600 MB.
"""

T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol):
    """Schedules tasks. Tasks are idempotent: a runner may run one twice, or again after a failure.

    One that runs tasks beside each other in a process heeds what they say
    they hold (:mod:`lakeindex.tasks.memory_bound`).
    """

    @property
    def slots(self) -> int:
        """Tasks that run at once."""

    @property
    def is_started(self) -> bool:
        """Whether a task can begin at once; else executors are started for the first one,
        which takes some ten seconds.
        """

    def nearby(self) -> Runner:
        """A runner on the cores of this process; this one, if it is that."""

    def for_files(self, files: int) -> Runner:
        """This runner, for maps that read or write so many base files."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        """``[function(t) for t in tasks]``, in order; the first failure is raised as it was."""


class TaskOutcome(Frozen, Generic[R]):
    """What a task returned and what it cost."""

    value: R
    cost: StageCost


_meter: ContextVar[Meter | None] = ContextVar("meter", default=None)


def current_meter() -> Meter:
    """The meter of the task (or driver step) that is running; a throw-away one outside of both."""
    meter = _meter.get()
    return meter if meter is not None else Meter()


def do_task(
    function: Callable[[T], R], task: T, share: int | None = None, options: StoreOptions | None = None
) -> TaskOutcome[R]:
    """Run one task under a meter of its own; what runners call on the executing side.

    Args:
        share: memory it may hold, in bytes; None: the share of the caller.
        options: of the stores that it opens; None: those of the caller.
    """
    meter = Meter()
    token = _meter.set(meter)
    started = time.perf_counter()
    try:
        with memory_share(share), using(current_options() if options is None else options), counting() as beside:
            value = function(task)
    finally:
        _meter.reset(token)
    spent = Spent(time.perf_counter() - started, beside.startup, beside.waiting)
    cost = meter.cost(spent.work)
    return TaskOutcome(value, replace(cost, apart=spent) if beside.is_apart else cost)


def run_tasks(runner: Runner, function: Callable[[T], R], tasks: Sequence[T], title: str) -> tuple[R, ...]:
    """Map a task function over tasks: results in task order; what they cost is added to the driver's meter."""
    if not tasks:  # to ask how many there can be at once starts a Spark session
        return ()
    share = current_bound() // runner.slots
    bound = partial(do_task, function, share=share, options=current_options())
    with handing_over():
        outcomes: list[TaskOutcome[R]] = runner.map(bound, tasks, title)
    apart = [outcome.cost.apart for outcome in outcomes if outcome.cost.apart is not None]
    if len(apart) == len(
        outcomes
    ):  # else this process worked meanwhile; those that ran side by side started side by side
        current_account().book(max(one.startup for one in apart), max(one.waiting for one in apart))
    driver = _meter.get()
    if driver is not None:
        driver.add_tasks([outcome.cost for outcome in outcomes])
    return tuple(outcome.value for outcome in outcomes)


def for_work(runner: Runner, work_bytes: float, config: WriteConfig, files: int = 0) -> Runner:
    """The runner for a map that reads about so many bytes: a small one is done sooner than a job of Spark's is started.

    Args:
        work_bytes: that the map reads, about.
        files: base files that it reads or writes, if these are most of its work.
    """
    most = config.driver_bytes if runner.is_started else _BEFORE_A_START * config.driver_bytes
    near = runner.nearby() if work_bytes <= most else runner
    return near.for_files(files) if near is runner else near  # the driver of a cluster has no cores to spare


def pack(costs: Sequence[float], bins: int) -> list[list[int]]:
    """Spread items over at most ``bins`` tasks of about equal cost: largest first into the lightest. Deterministic."""
    bins = max(1, min(bins, len(costs)))
    loads = [(0.0, b) for b in range(bins)]
    packed: list[list[int]] = [[] for _ in range(bins)]
    for item in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        load, lightest = loads[0]
        packed[lightest].append(item)
        heapq.heapreplace(loads, (load + costs[item], lightest))
    return [sorted(items) for items in packed if items]


class Threads:
    """The plainest runner."""

    @property
    def slots(self) -> int:
        return os.cpu_count() or 1

    @property
    def is_started(self) -> bool:
        return True

    def nearby(self) -> Threads:
        return self

    def for_files(self, files: int) -> Threads:  # noqa: ARG002 - the protocol's argument
        return self

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        with ThreadPoolExecutor(self.slots, thread_name_prefix=title) as pool:
            futures = [pool.submit(copy_context().run, function, task) for task in tasks]
            return [future.result() for future in futures]
