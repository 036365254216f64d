"""A heartbeat renews leases whatever happens to single beats."""

import threading

from lakeindex.errors import StorageError
from lakeindex.lock.write_context import Heartbeat


class Lease:
    """Counts its renewals; the first ones fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.renewals = 0
        self.often = threading.Event()

    def renew(self) -> None:
        self.renewals += 1
        if self.renewals <= self.failures:
            raise StorageError("the store does not answer", culprit="lease")
        if self.renewals > self.failures + 2:
            self.often.set()


def test_a_storage_error_ends_neither_this_lease_nor_the_others():
    failing, fine = Lease(3), Lease(0)
    heartbeat = Heartbeat(0.03)
    heartbeat.add(failing)
    heartbeat.add(fine)
    heartbeat.start()
    assert failing.often.wait(60)
    assert fine.often.wait(60)
    heartbeat.stop()
    assert fine.renewals >= failing.renewals - 1


def test_a_dropped_lease_is_renewed_no_more():
    dropped, kept = Lease(0), Lease(0)
    heartbeat = Heartbeat(0.03)
    heartbeat.add(dropped)
    heartbeat.add(kept)
    heartbeat.drop(dropped)
    heartbeat.start()
    assert kept.often.wait(60)
    heartbeat.stop()
    assert dropped.renewals == 0
