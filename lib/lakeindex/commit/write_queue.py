"""Turns: writers of the same file groups work one after the other; at once, all but one would work in vain.

``.hoodie/.lakeindex/turns/<number>.json``: a writer that knows which file groups it is going to change takes the next
number (create-if-absent), and waits while a living writer with a smaller one is going to change one of them, too.
Writers of other file groups do not wait for it. A writer that has waited looks its keys up again and plans anew.

This is an optimisation, and nothing but that: what may be committed is decided by the checks under the lock and by the
verdict. So whatever goes wrong here (a store's error, a torn or lost ticket, a clock) is passed over, a turn that does
not come in time is not waited for any longer, and two writers that go at once cost one of them an attempt.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.errors import LakeIndexError, StorageError, TableCorruptError
from lakeindex.frozen import Frozen
from lakeindex.showing.json_values import json_of
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host, Process
from lakeindex.time_spent import waiting
from lakeindex.timeline import records

TURNS_FOLDER: Final = f"{records.OWN_FOLDER}/turns"

_DIGITS: Final = 12
_PAUSE: Final = 0.05
_GROWTH: Final = 1.2
_LONGEST_PAUSE: Final = 0.5
_MOST_NAMED: Final = 5_000
_TRIES: Final = 20


class TurnScope(Frozen):
    """What a writer is going to change.

    Attributes:
        groups: file groups that it rewrites; of a bucket table the buckets, whether they have a file group yet or not.
        creates: partitions in which it makes new file groups.
        everything: whether it is in everybody's way: it replaces whole partitions, or changes the index.
        lost: whether it has lost an attempt. Two that insert into one partition are taken to insert different keys,
            until one has found out otherwise.
    """

    groups: frozenset[str] = frozenset()
    creates: frozenset[str] = frozenset()
    everything: bool = False
    lost: bool = False

    @staticmethod
    def of(groups: Iterable[tuple[str, str]], creates: Iterable[str], *, lost: bool = False) -> TurnScope:
        """The scope of a plan.

        Args:
            groups: partition path and file id (or bucket) of each file group that changes.
            creates: partitions of new file groups.
        """
        named = frozenset(records.key_of(f"{partition}\0{group}") for partition, group in groups)
        made = frozenset(records.key_of(partition) for partition in creates)
        if len(named) + len(made) > _MOST_NAMED:
            return EVERYTHING  # and so it is, about
        return TurnScope(named, made, lost=lost)

    def meets(self, other: TurnScope) -> bool:
        """Whether one of the two would be in vain if both were planned at once."""
        if self.everything or other.everything or not self.groups.isdisjoint(other.groups):
            return True
        return (self.lost or other.lost) and not self.creates.isdisjoint(other.creates)


EVERYTHING: Final = TurnScope(everything=True)


class Ticket(Frozen):
    """Content of one ticket.

    Attributes:
        expires_ms: end of its lease, milliseconds since the epoch.
        running: whether the holder does not wait (any more).
    """

    number: int
    token: str
    process: Process
    scope: TurnScope
    expires_ms: int
    lease_ms: int
    running: bool = False

    def is_alive(self, host: Host) -> bool:
        """Whether the holder may still be at work; half a lease of grace allows for clocks that differ."""
        return not host.is_gone(self.process) and host.clock.now_ms() <= self.expires_ms + self.lease_ms // 2


class Turn(Struct):
    """A writer's place among the others, while it has one.

    Attributes:
        lease_ms: lease of the ticket; a holder that does not renew it in time is passed.
        wait_ms: how long to wait, in all.
    """

    storage: Storage
    host: Host
    lease_ms: int
    wait_ms: int
    _mine: Ticket | None = None
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def take(self, scope: TurnScope) -> bool:
        """Wait until no earlier writer is going to change what this one changes.

        A writer that has had its turn keeps it, also with another scope.

        Returns:
            Whether others were waited for: what was read before may be out of date then.
        """
        try:
            if self._mine is not None and self._mine.running:
                self._put(replace(self._mine, scope=scope))
                return False
            if not self._queued(scope):
                return False
            return self._wait()
        except (StorageError, TableCorruptError):
            return False  # nobody queues then, and the checks before the commit find out who was first

    def renew(self) -> None:
        with self._mutex:
            if self._mine is not None:
                self._write(replace(self._mine, expires_ms=self._expires()))

    def end(self) -> None:
        with self._mutex:
            mine, self._mine = self._mine, None
            if mine is not None:
                records.tidy(self.storage, [_path(mine.number)])

    def _queued(self, scope: TurnScope) -> bool:
        """Have a ticket; False if none could be had."""
        if self._mine is not None:
            self._put(replace(self._mine, scope=scope))
            return True
        for _ in range(_TRIES):
            others = self._living()
            number = max(others, default=0) + 1
            alone = not any(one.scope.meets(scope) for one in others.values())
            ticket = Ticket(
                number, self.host.new_token(), self.host.process, scope, self._expires(), self.lease_ms, running=alone
            )
            data = _encode(ticket)
            if records.settle(self.storage, _path(number), data) == data:
                with self._mutex:
                    self._mine = ticket
                return True
        return False

    def _wait(self) -> bool:
        deadline = self.host.clock.now_ms() + self.wait_ms
        place, pause, waited = 0, _PAUSE, False
        while (ahead := self._ahead()) and self.host.clock.now_ms() < deadline:
            self._run(running=False)
            pause = pause * _GROWTH if ahead == place else _PAUSE * ahead  # who is next looks most often
            place, waited = ahead, True
            with waiting():
                self.host.clock.sleep(min(pause, _LONGEST_PAUSE) * (0.5 + secrets.randbelow(1_000) / 1_000))
        self._run(running=True)
        return waited

    def _ahead(self) -> int:
        """How many go first. Two that were alone when they came both run: the smaller number goes on."""
        mine = self._mine
        if mine is None:
            return 0
        return sum(
            one.number != mine.number
            and one.scope.meets(mine.scope)
            and (one.number < mine.number or (one.running and not mine.running))
            for one in self._living().values()
        )

    def _living(self) -> dict[int, Ticket]:
        """Tickets of others that may be at work, and our own; what the dead left is tidied away."""
        found: dict[int, Ticket] = {}
        for one in self.storage.list_folder(TURNS_FOLDER).objects:
            name = one.path.rpartition("/")[2].removesuffix(".json")
            ticket = _load(self.storage, one.path) if name.isdecimal() else None
            if ticket is None:
                continue
            if ticket.is_alive(self.host):
                found[int(name)] = ticket
            else:
                records.tidy(self.storage, [one.path])
        return found

    def _run(self, *, running: bool) -> None:
        if self._mine is not None and self._mine.running != running:
            self._put(replace(self._mine, running=running))

    def _put(self, ticket: Ticket) -> None:
        with self._mutex:
            self._write(replace(ticket, expires_ms=self._expires()))

    def _write(self, ticket: Ticket) -> None:
        self._mine = ticket
        records.put(self.storage, _path(ticket.number), _encode(ticket))

    def _expires(self) -> int:
        return self.host.clock.now_ms() + self.lease_ms


def _path(number: int) -> str:
    return f"{TURNS_FOLDER}/{number:0{_DIGITS}d}.json"


def _encode(ticket: Ticket) -> bytes:
    scope = {**json_of(ticket.scope), "groups": sorted(ticket.scope.groups), "creates": sorted(ticket.scope.creates)}
    return records.encode({**json_of(ticket), "scope": scope})


def _load(storage: Storage, path: str) -> Ticket | None:
    """A ticket; None if it is gone, or cannot be read: then it keeps nobody waiting."""
    try:
        found: dict[str, Any] | None = records.load(storage, path)
        if found is None:
            return None
        scope = found.pop("scope")
        return Ticket(
            process=Process(**found.pop("process")),
            scope=TurnScope(
                frozenset(scope["groups"]), frozenset(scope["creates"]), bool(scope["everything"]), bool(scope["lost"])
            ),
            **found,
        )
    except (LakeIndexError, KeyError, TypeError):
        return None
