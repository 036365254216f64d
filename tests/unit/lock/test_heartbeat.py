"""The heartbeat goes on, whatever a renewal says."""

import threading

import pytest

from lakeindex.errors import StorageError
from lakeindex.lock.write_context import Heartbeat


class Lease:
    """Fails its first renewals, and says when one went well."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors
        self.renewed = threading.Event()

    def renew(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.renewed.set()


@pytest.mark.parametrize("error", [StorageError("no answer"), PermissionError(13, "denied"), MemoryError()], ids=repr)
def test_a_renewal_that_fails_is_tried_again_and_keeps_no_other_from_theirs(error: Exception) -> None:
    first, second = Lease([error, error, error]), Lease([])
    heartbeat = Heartbeat(0.03)
    heartbeat.add(first)
    heartbeat.add(second)
    heartbeat.start()
    try:
        assert second.renewed.wait(20)
        assert first.renewed.wait(20)
        assert first.errors == []
    finally:
        heartbeat.stop()
    second.renewed.clear()
    assert not second.renewed.wait(0.1)
