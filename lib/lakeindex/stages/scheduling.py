"""What a runner is, and what a task's work cost.

A stage is a driver function that makes tasks (frozen, picklable values) and a module-level function that does one. A
runner only schedules: threads of this process, or Spark. Results are metadata, never rows: rows go to checkpoints.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from lakeindex.stages.metering import IoCount, Meter

T = TypeVar("T")
R = TypeVar("R")


class Runner(Protocol):
    """Schedules tasks. Tasks are idempotent: a runner may run one twice, or again after a failure."""

    @property
    def slots(self) -> int:
        """Tasks that run at once."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        """``[function(t) for t in tasks]``, in order; the first failure is raised as it was."""


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[R]):
    """What a task returned and what it cost."""

    value: R
    io: IoCount
    seconds: float


@dataclass(frozen=True, slots=True)
class Work(Generic[R]):
    """Results of all tasks of one map, in task order, and their sums.

    Attributes:
        values: one result a task.
        io: storage requests and bytes of all tasks.
        tasks: how many there were.
        slowest_seconds: the longest task.
    """

    values: tuple[R, ...]
    io: IoCount
    tasks: int
    slowest_seconds: float


_meter: ContextVar[Meter | None] = ContextVar("meter", default=None)


def current_meter() -> Meter:
    """The meter of the task (or driver step) that is running; a throw-away one outside of both."""
    meter = _meter.get()
    return meter if meter is not None else Meter()


def do_task(function: Callable[[T], R], task: T) -> TaskOutcome[R]:
    """Run one task under a meter of its own; what runners call on the executing side."""
    meter = Meter()
    token = _meter.set(meter)
    started = time.perf_counter()
    try:
        value = function(task)
    finally:
        _meter.reset(token)
    return TaskOutcome(value, meter.count(), time.perf_counter() - started)


def run_tasks(runner: Runner, function: Callable[[T], R], tasks: Sequence[T], title: str) -> Work[R]:
    """Map a task function over tasks and add up the costs; the driver's meter gets them too."""
    outcomes: list[TaskOutcome[R]] = runner.map(partial(do_task, function), tasks, title) if tasks else []
    io = IoCount()
    for outcome in outcomes:
        io = io + outcome.io
    driver = _meter.get()
    if driver is not None:
        driver.add(io)
    return Work(tuple(o.value for o in outcomes), io, len(outcomes), max((o.seconds for o in outcomes), default=0.0))


def pack(costs: Sequence[float], bins: int) -> list[list[int]]:
    """Spread items over at most ``bins`` tasks of about equal cost: largest first into the lightest. Deterministic."""
    bins = max(1, min(bins, len(costs)))
    loads = [0.0] * bins
    packed: list[list[int]] = [[] for _ in range(bins)]
    for item in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        lightest = min(range(bins), key=lambda b: (loads[b], b))
        packed[lightest].append(item)
        loads[lightest] += costs[item]
    return [sorted(items) for items in packed if items]
