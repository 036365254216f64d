"""Attempts of a run: numbered by create-if-absent token files; only the newest may publish.

``.hoodie/.lakeindex/runs/<run key>/attempts/<number>.json``. A run that is started again (a retry, a second click)
makes the next number, and is the run from then on; the older attempt finds out at its next step. Airflow's try numbers
play no part: they repeat. The record carries a lease, by which others judge whether the run's instant is alive.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from typing import Final

from lakeindex.aftermath import noted
from lakeindex.errors import FencedError, ObjectNotFoundError
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host, Process
from lakeindex.timeline import records

RUNS_FOLDER: Final = f"{records.OWN_FOLDER}/runs"

_DIGITS: Final = 8
_END_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What a run is.

    Attributes:
        run_id: names the run; every retry of it has the same.
        batch_id: names the batch for good: it is committed once.
        input_digest: digest of the batch's content, as ``<algorithm>:<digest>``;
            without a name it is the first algorithm's.
        older_digests: digests of the same batch by algorithms of older releases, for entries that those made.
    """

    run_id: str
    batch_id: str
    input_digest: str
    older_digests: tuple[str, ...] = ()

    def has_input(self, digest: str) -> bool | None:
        """Whether its batch is the one that a digest was made of, by the algorithm that made it;
        None if that cannot be told.
        """
        algorithm = digest.rpartition(":")[0]
        mine = [one for one in (self.input_digest, *self.older_digests) if one.rpartition(":")[0] == algorithm]
        return digest in mine if mine else None

    @property
    def key(self) -> str:
        """Name of the run's folder."""
        return records.key_of(self.run_id)


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """Content of one attempt's file.

    Attributes:
        number: from 1.
        token: unique to the attempt; travels in the commit.
        run_id: the run, for people.
        process: who runs it.
        expires_ms: end of its lease, milliseconds since the epoch.
        lease_ms: its length.
        ended: whether it has given up or is through.
    """

    number: int
    token: str
    run_id: str
    process: Process
    expires_ms: int
    lease_ms: int
    ended: bool = False

    def is_alive(self, host: Host) -> bool:
        """Whether it may still be working; half a lease of grace allows for clocks that differ."""
        if self.ended or host.is_gone(self.process):
            return False
        return host.clock.now_ms() <= self.expires_ms + self.lease_ms // 2


class Attempt:
    """This process's attempt of a run."""

    def __init__(self, storage: Storage, host: Host, run: RunIdentity, record: AttemptRecord) -> None:
        self._storage = storage
        self._host = host
        self._run = run
        self._record = record
        self._mutex = threading.Lock()

    @property
    def number(self) -> int:
        """Its number."""
        return self._record.number

    @property
    def token(self) -> str:
        """Its token."""
        return self._record.token

    def check(self) -> None:
        """Make sure that no newer attempt exists; renew the lease. Raises: FencedError."""
        numbers = _numbers(self._storage, self._run.key)
        if numbers[-1:] != [self.number]:
            newest = numbers[-1] if numbers else None
            raise FencedError(
                f"attempt {self.number} of run {self._run.run_id!r} was superseded"
                + (f" by attempt {newest}" if newest else ": the run is over"),
                culprit=self._run.run_id,
                hint="the newest attempt of a run publishes it; nothing has to be done here",
            )
        self.renew()

    def renew(self) -> None:
        """Extend the lease. A file that was tidied away stays away: the run is over."""
        with self._mutex:
            if not self._record.ended:
                expires = self._host.clock.now_ms() + self._record.lease_ms
                self._rewrite(replace(self._record, expires_ms=expires))

    def end(self) -> None:
        """Say that this attempt does nothing any more; best effort, its lease runs out anyway."""
        with self._mutex:
            for _ in range(_END_TRIES):
                if not noted("the attempt was not ended", lambda: self._rewrite(replace(self._record, ended=True))):
                    return

    def _rewrite(self, record: AttemptRecord) -> None:
        self._record = record
        path = attempt_path(self._run.key, self.number)
        try:
            self._storage.head(path)
        except ObjectNotFoundError:
            return
        records.put(self._storage, path, _encode(record))


def start_attempt(storage: Storage, host: Host, run: RunIdentity, lease_ms: int) -> Attempt:
    """Make the next attempt of a run, superseding all before it."""
    token = host.new_token()
    while True:
        numbers = _numbers(storage, run.key)
        number = (numbers[-1] if numbers else 0) + 1
        record = AttemptRecord(number, token, run.run_id, host.process, host.clock.now_ms() + lease_ms, lease_ms)
        data = _encode(record)
        if records.settle(storage, attempt_path(run.key, number), data) == data:
            return Attempt(storage, host, run, record)


def newest_attempt(storage: Storage, run_key: str) -> AttemptRecord | None:
    """The newest attempt of a run; ``None`` if the run is over, never started, or its newest attempt's record is torn.

    Raises:
        TableCorruptError: the record is none of ours.
    """
    numbers = _numbers(storage, run_key)
    if not numbers:
        return None
    path = attempt_path(run_key, numbers[-1])
    found = records.load(storage, path)
    if not found:
        return None
    try:
        return AttemptRecord(process=Process(**found.pop("process")), **found)
    except (KeyError, TypeError) as error:
        raise records.damaged(path, repr(error)) from None


def run_folder(run_key: str) -> str:
    """Folder of a run's records."""
    return f"{RUNS_FOLDER}/{run_key}"


def _numbers(storage: Storage, run_key: str) -> list[int]:
    listed = storage.list_folder(f"{run_folder(run_key)}/attempts").objects
    names = (one.path.rpartition("/")[2].removesuffix(".json") for one in listed)
    return sorted(int(name) for name in names if name.isdecimal())


def attempt_path(run_key: str, number: int) -> str:
    """Path of an attempt's record."""
    return f"{run_folder(run_key)}/attempts/{number:0{_DIGITS}d}.json"


def _encode(record: AttemptRecord) -> bytes:
    return records.encode(asdict(record))
