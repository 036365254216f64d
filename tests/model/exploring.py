"""Search through histories: depth first, by replay, with a budget for each kind of deviation.

Two histories that reach the same state (store, what every actor has seen, who runs, what is left of the budget) have the
same futures: the second one is cut. So all histories within the budget are covered, though far fewer are played.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.model.scheduling import WRITES, Actor, Deviation, Scheduler

Budget = Mapping[str, int]


@dataclass
class Report:
    """What a search did.

    Attributes:
        histories: histories played to the end.
        cut: histories cut at a state that was known.
        steps: storage calls.
        states: distinct states.
        outcomes: how the histories ended, by the judge's word.
        complete: whether the search was not stopped by its limit.
    """

    histories: int = 0
    cut: int = 0
    steps: int = 0
    states: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    complete: bool = True

    def __str__(self) -> str:
        ended = ", ".join(f"{word} {count}" for word, count in sorted(self.outcomes.items()))
        whole = "all" if self.complete else "not all"
        return (
            f"{self.histories} histories ({whole}), {self.cut} cut, {self.states} states, {self.steps} steps: {ended}"
        )


@dataclass(eq=False)  # not frozen: whoever passes it on sets its traceback
class Violation(Exception):  # noqa: N818 - it is found, not raised by mistake
    """A history that breaks an invariant."""

    deviations: tuple[Deviation, ...]
    trace: tuple[tuple[str, str, str], ...]
    reason: str

    def __str__(self) -> str:
        lines = [f"{n:4d} {actor:8s} {call:12s} {path}" for n, (actor, call, path) in enumerate(self.trace)]
        return f"{self.reason}\nhistory: {list(self.deviations)}\n" + "\n".join(lines)


def explore(
    story: Callable[[], Story],
    budget: Budget,
    *,
    limit: int | None = None,
    seed: int | None = None,
    where: Callable[[str, str, str], bool] | None = None,
) -> Report:
    """Play all histories within a budget.

    Args:
        story: makes the actors and the initial store anew for each history.
        budget: how many deviations of each kind (``switch``, ``stall``, ``crash``, ``lost``), and in ``total``.
        limit: most histories to play; random ones then, if there is a seed.
        seed: order of the search.
        where: deviate only before calls (actor, name, path) for which this holds.

    Raises:
        Violation: the first history that breaks an invariant.
    """
    search = _Search(budget, where or _anywhere)
    report = search.report
    todo: list[tuple[Deviation, ...]] = [()]
    dice = random.Random(seed)
    while todo:
        if limit is not None and report.histories + report.cut >= limit:
            report.complete = False
            break
        deviations = todo.pop(dice.randrange(len(todo)) if seed is not None else -1)
        todo += _play(search, story(), deviations)
    report.states = len(search.visited)
    return report


def _anywhere(*_: str) -> bool:
    return True


class Story:
    """Actors, their store, and the judge of how it ended. Subclass it."""

    def actors(self) -> list[Actor]:
        raise NotImplementedError

    def scheduler(self, deviations: tuple[Deviation, ...], visit: object) -> Scheduler:
        raise NotImplementedError

    def fingerprint(self) -> object:
        """Of everything that is shared."""
        raise NotImplementedError

    def ending(self) -> object:
        """Everything that the judge looks at: equal endings are judged once."""
        raise NotImplementedError

    def judge(self) -> str:
        """After the end: recover, check the invariants (AssertionError), say in a word how it ended."""
        raise NotImplementedError


@dataclass
class _Search:
    """What the histories of one search share."""

    budget: Budget
    where: Callable[[str, str, str], bool]
    report: Report = field(default_factory=Report)
    visited: set[int] = field(default_factory=set)  # hashes: millions of states have to fit
    judged: dict[object, str] = field(default_factory=dict)


def _play(search: _Search, story: Story, deviations: tuple[Deviation, ...]) -> list[tuple[Deviation, ...]]:
    budget, report = search.budget, search.report
    last = deviations[-1].step if deviations else -1
    used = Counter(one.kind for one in deviations)
    left = {kind: budget.get(kind, 0) - used[kind] for kind in ("switch", "stall", "crash", "lost")}
    total = budget.get("total", sum(budget.values())) - len(deviations)
    spent = (*sorted(left.items()), total)
    children: list[tuple[Deviation, ...]] = []

    def visit(scheduler: Scheduler, actor: Actor, name: str, path: str) -> bool:
        step = scheduler.steps
        if step <= last:
            return True
        states = tuple((one.name, one.state, one.seen, one.frozen_by) for one in scheduler.actors.values())
        key = hash((story.fingerprint(), states, actor.name, name, path, scheduler.now_ms, spent))
        if key in search.visited:
            return False
        search.visited.add(key)
        if total > 0 and search.where(actor.name, name, path):
            children.extend((*deviations, Deviation(step, *one)) for one in _options(scheduler, actor, name, left))
        return True

    scheduler = story.scheduler(deviations, visit)
    try:
        scheduler.run()
        report.steps += scheduler.steps
        if scheduler.pruned:
            report.cut += 1
            return children
        report.histories += 1
        end = story.ending()
        if end not in search.judged:
            search.judged[end] = story.judge()
        report.outcomes[search.judged[end]] += 1
    except AssertionError as error:
        raise Violation(deviations, tuple(scheduler.trace), str(error)) from error
    return children


def _options(scheduler: Scheduler, actor: Actor, name: str, left: Mapping[str, int]) -> list[tuple[str, str]]:
    others = [one.name for one in scheduler.actors.values() if one is not actor and not one.is_over]
    options: list[tuple[str, str]] = []
    for kind in ("switch", "stall"):
        if left[kind] > 0:
            options += [(kind, other) for other in others]
    # Killed before a read is the same as killed before the write that follows it, or when the baton came.
    came = not scheduler.trace or scheduler.trace[-1][0] != actor.name
    if left["crash"] > 0 and actor.may_crash and (came or name in WRITES):
        options.append(("crash", ""))
    if left["lost"] > 0 and name in WRITES:
        options.append(("lost", ""))
    return options
