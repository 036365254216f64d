"""Calls to HBase's Thrift server that are repeated, over a new connection,
until they succeed or the time for that is up.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import happybase  # noqa: F401 - it makes Hbase_thrift, the module of HBase's interface
from Hbase_thrift import Hbase, IllegalArgument
from Hbase_thrift import IOError as HBaseIOError
from tenacity import RetryError, Retrying, retry_if_exception, stop_after_delay, wait_exponential
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TClient, TException
from thriftpy2.transport import TBufferedTransport, TSocket

from lakeindex.errors import HBaseTableError, HBaseUnavailableError, first_line
from lakeindex.storage.parallel import ProcessLock
from lakeindex.time_spent import waiting

VERSIONS: Final = 3
_MOST_ANSWER_SECONDS: Final = 60.0
_NO_TABLE: Final = ("TableNotFoundException", "NoSuchColumnFamilyException", "TableNotEnabledException")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class HBaseAddress:
    """Where the Thrift server is, and how long to wait for it.

    Attributes:
        connect_seconds: longest wait for a connection.
        retry_seconds: how long a call is repeated before it is given up.
    """

    host: str
    port: int
    connect_seconds: float = 10.0
    retry_seconds: float = 60.0

    @property
    def answer_seconds(self) -> float:
        """Longest wait for an answer, in one try."""
        return max(self.connect_seconds, min(self.retry_seconds, _MOST_ANSWER_SECONDS))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class _Connection:
    """An open connection and the client that speaks on it."""

    socket: Any
    transport: Any
    client: Any

    @staticmethod
    def open(address: HBaseAddress) -> _Connection:
        """A client as happybase makes it, but with a time of its own for the connection to come about."""
        answer, connect = int(address.answer_seconds * 1000), int(address.connect_seconds * 1000)
        socket = TSocket(address.host, address.port, socket_timeout=answer, connect_timeout=connect)
        transport = TBufferedTransport(socket)
        client = TClient(Hbase, TBinaryProtocol(transport, decode_response=False))
        transport.open()
        return _Connection(socket, transport, client)


class _Pool:
    """Idle connections of this process; stores come and go with every task, connections stay."""

    def __init__(self) -> None:
        self._idle: dict[tuple[int, HBaseAddress], list[_Connection]] = {}
        self._mutex = ProcessLock()

    def take(self, address: HBaseAddress) -> _Connection:
        """An idle connection, or a new one."""
        with self._mutex:
            idle = self._idle.get((os.getpid(), address))  # a forked process must not speak on its parent's connections
            if idle:
                return idle.pop()
        return _Connection.open(address)

    def put_back(self, address: HBaseAddress, connection: _Connection) -> None:
        """A connection whose last answer was read to its end."""
        with self._mutex:
            self._idle.setdefault((os.getpid(), address), []).append(connection)

    def close(self, address: HBaseAddress) -> None:
        """Close the idle connections to a server: it went away, and they with it."""
        with self._mutex:
            idle = self._idle.pop((os.getpid(), address), [])
        for connection in idle:
            connection.transport.close()

    def close_all(self) -> None:
        """At the end of the process."""
        for process, address in list(self._idle):
            if process == os.getpid():
                self.close(address)


_pool: Final = _Pool()
atexit.register(_pool.close_all)


@dataclass(frozen=True, slots=True)
class HBaseClient:
    """A client of one table; any thread may use it.

    Attributes:
        table: name of the table (``namespace:name`` outside the default one), for messages.
    """

    address: HBaseAddress
    table: str

    def call(self, do: Callable[[Any], _T], retry_seconds: float | None = None) -> _T:
        """Do something with the Thrift client; repeated over a new connection while it fails for a passing reason.

        Raises:
            HBaseUnavailableError: it failed until the time was up.
            HBaseTableError: the table is not there, or lacks the family.
        """
        seconds = self.address.retry_seconds if retry_seconds is None else retry_seconds
        answer = min(self.address.answer_seconds, max(seconds, self.address.connect_seconds))
        attempts = Retrying(
            retry=retry_if_exception(_is_passing),
            stop=stop_after_delay(seconds),
            wait=wait_exponential(multiplier=0.1, max=3),
        )
        try:
            return attempts(self._once, do, answer)
        except RetryError as error:
            cause = error.last_attempt.exception()
            raise HBaseUnavailableError(
                f"HBase does not answer at {self.address} (tried for {seconds:g} s): {message_of(cause)}",
                culprit=str(self.address),
                hint="is its Thrift server running (`hbase thrift start`, or `make hbase`)? "
                "lakeindex.hbase.thrift.host and lakeindex.hbase.thrift.port say where it is",
            ) from cause
        except (HBaseIOError, IllegalArgument) as error:
            raise self._table_error(error) from error

    def _once(self, do: Callable[[Any], _T], answer_seconds: float) -> _T:
        connection = None
        try:
            connection = _pool.take(self.address)
            connection.socket.set_timeout(int(answer_seconds * 1000))
            answer = do(connection.client)
        except (TException, OSError):
            # What is left of an answer on this connection would be taken for the next one's.
            if connection is not None:
                connection.transport.close()
            _pool.close(self.address)
            raise
        _pool.put_back(self.address, connection)
        return answer

    def _table_error(self, error: TException) -> HBaseTableError:
        return HBaseTableError(
            f"table {self.table!r} of HBase at {self.address} cannot be used: {message_of(error)}",
            culprit=self.table,
            hint=f"create it in the HBase shell: {create_statement(self.table)} "
            "(or let lakeindex do it: lakeindex.hbase.create.table=true)",
        )


class RowRate:
    """A bound of rows a second, shared by all threads of the process that use the same bucket of tokens."""

    def __init__(self, rows_per_second: float) -> None:
        self._rate = rows_per_second
        self._mutex = ProcessLock()
        self._free_at = 0.0

    def wait(self, rows: int) -> None:
        """Take ``rows`` tokens; returns when they are there. A burst of one batch goes through at once."""
        with self._mutex:
            now = time.monotonic()
            begin = max(now, self._free_at)
            self._free_at = begin + rows / self._rate
        with waiting():
            time.sleep(max(0.0, begin - now))


_rates: dict[tuple[str, float], RowRate] = {}
_rates_mutex: Final = ProcessLock()


def shared_rate(name: str, rows_per_second: float) -> RowRate | None:
    """The process's bucket for a table; None if there is no bound (0)."""
    if not rows_per_second:
        return None
    with _rates_mutex:
        return _rates.setdefault((name, rows_per_second), RowRate(rows_per_second))


def create_statement(table: str) -> str:
    """What makes the table, in the HBase shell."""
    return f"create '{table}', {{NAME=>'_s', VERSIONS=>{VERSIONS}}}"


def message_of(error: BaseException | None) -> str:
    """First line of what a Thrift error says; its own ``str`` fails on bytes."""
    said = getattr(error, "message", None)
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    if not text:
        text = str(error) if isinstance(error, OSError) else type(error).__name__
    return first_line(text)


def _is_passing(error: BaseException) -> bool:
    """Whether trying again may help."""
    if isinstance(error, IllegalArgument):
        return False
    if isinstance(error, HBaseIOError):
        return not any(name in message_of(error) for name in _NO_TABLE)
    return isinstance(error, (TException, OSError))
