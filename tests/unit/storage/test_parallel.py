"""Many requests at once: in order, the first error, how many threads."""

import threading
import time
from contextvars import ContextVar

import pytest

from lakeindex.storage import in_parallel, parallel

WHO: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.mark.parametrize("uri", ["/data/lake", "file:///data/lake", "s3://lake/table"])
@pytest.mark.parametrize("count", [0, 3, 50])
def test_answers_stand_in_the_order_of_the_questions(uri: str, count: int) -> None:
    def answer(number: int) -> int:
        time.sleep((number % 3) / 1000)  # so that answers come in another order than they were asked for
        return number * number

    assert in_parallel(uri, answer, iter(range(count))) == [n * n for n in range(count)]


@pytest.mark.parametrize("count", [3, 50])
def test_the_first_error_is_raised(count: int) -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    with pytest.raises(ValueError, match=r"^0$"):
        in_parallel("s3://lake", fail, range(count))


@pytest.mark.parametrize(
    ("uri", "count", "workers", "most"),
    [("s3://lake", 40, None, 16), ("/data/lake", 40, None, 4), ("s3://lake", 7, None, 1), ("/data/lake", 3, 2, 2)],
)
def test_a_far_store_is_asked_by_more_at_once(
    monkeypatch: pytest.MonkeyPatch, uri: str, count: int, workers: int | None, most: int
) -> None:
    monkeypatch.setattr(parallel, "_ALONE_S", -1)  # a near store that is slow
    running, seen = [], []
    lock, meeting = threading.Lock(), threading.Barrier(min(most, 2))

    def ask(_: int) -> None:
        with lock:
            running.append(1)
            seen.append(len(running))
            is_early = len(seen) <= 2
        if is_early:
            meeting.wait(60)  # the first two are there together, if there may be two
        with lock:
            running.pop()

    in_parallel(uri, ask, range(count), workers)
    assert max(seen) <= most
    assert (max(seen) > 1) == (most > 1)


def test_a_near_store_that_answers_at_once_is_asked_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_ALONE_S", 60)  # at once, however busy the machine is
    asked = in_parallel("/data/lake", lambda _: threading.current_thread(), range(20))
    assert asked == [threading.main_thread()] * 20


def test_nothing_is_asked_of_nobody() -> None:
    assert in_parallel("s3://lake", str, [], workers=2) == []


def test_requests_count_for_the_caller() -> None:
    WHO.set("me")
    assert set(in_parallel("s3://lake", lambda _: WHO.get(), range(40))) == {"me"}
