"""Cores that no task needs help those that run."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.threads import cores_at_hand, having_cores, in_cores


def test_a_task_may_use_the_cores_that_no_other_task_needs() -> None:
    assert cores_at_hand() == 1
    assert LocalRunner(8).map(lambda _: cores_at_hand(), [0], "") == [8]
    assert LocalRunner(1).map(lambda _: cores_at_hand(), range(3), "") == [1, 1, 1]
    assert cores_at_hand() == 1


def test_the_last_task_gets_the_cores_of_those_that_are_done() -> None:
    """With more tasks than slots each has one core; who is still at work when the others are done has all."""
    done = threading.Semaphore(0)

    def work(number: int) -> tuple[int, int]:
        before = cores_at_hand()
        if number:
            done.release()
            return before, 0
        for _ in range(3):
            done.acquire(timeout=60)
        after = before
        for _ in range(10_000):  # the others have said that they are done; they still have to be counted
            after = cores_at_hand()
            if after == 4:
                break
            threading.Event().wait(0.001)
        return before, after

    assert LocalRunner(4).map(work, range(4), "")[0][1] == 4
    assert LocalRunner(2).map(lambda _: cores_at_hand(), range(9), "")[0] == 1


@pytest.mark.parametrize("cores", [0, 1, 3])
def test_answers_come_in_order_and_no_more_is_begun_than_there_are_cores(cores: int) -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(7):
            taken.append(number)
            yield number

    with having_cores(lambda: cores):
        found = in_cores(lambda number: number * number, numbers())
        assert taken == []
        for number in range(7):
            assert next(found) == number * number
            assert len(taken) <= number + max(cores, 1)
        assert next(found, None) is None


def test_three_are_made_at_once_and_cores_that_come_later_are_used() -> None:
    meeting, cores = threading.Barrier(3), 1

    def meets(number: int) -> int:
        if number:
            meeting.wait(60)
        return number

    with having_cores(lambda: cores):
        found = in_cores(meets, range(4))
        assert next(found) == 0
        cores = 3
        assert list(found) == [1, 2, 3]


def test_the_first_error_is_raised_where_its_answer_is_asked_for() -> None:
    def fails(number: int) -> int:
        if number in (1, 2):
            raise ValueError(number)
        return number

    for cores in (1, 3):
        with having_cores(lambda: cores):  # noqa: B023 - called at once
            found = in_cores(fails, range(5))
            assert next(found) == 0
            with pytest.raises(ValueError, match=r"^1$"):
                next(found)
