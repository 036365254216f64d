"""Rows of a Hudi index in an HBase table, over HBase's Thrift server (version 1 of its interface, through happybase).

A row is laid out as Hudi 0.15 does it (``SparkHoodieHBaseIndex``): row key = the record key in UTF-8; family ``_s``
with ``commit_ts`` (the instant in which the key entered its file group), ``file_name`` (the id of the file group,
whatever its name says) and ``partition_path``, texts in UTF-8.

Every call is repeated, over a new connection, until it succeeds or the time for that is up. So everything here may
happen twice.
Puts and deletes carry the time stamp that the caller gives, which makes repeating them harmless.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

import happybase  # noqa: F401 - it makes Hbase_thrift, the module of HBase's interface
from Hbase_thrift import AlreadyExists, BatchMutation, ColumnDescriptor, Hbase, IllegalArgument, Mutation, TScan
from Hbase_thrift import IOError as HBaseIOError
from msgspec import Struct
from tenacity import RetryError, Retrying, retry_if_exception, stop_after_delay, wait_exponential
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TClient, TException
from thriftpy2.transport import TBufferedTransport, TSocket

from lakeindex.errors import HBaseTableError, HBaseUnavailableError, InputError, first_line
from lakeindex.frozen import Frozen
from lakeindex.storage.parallel import ProcessLock
from lakeindex.time_spent import waiting

FAMILY: Final = b"_s"
COMMIT: Final = b"_s:commit_ts"
FILE: Final = b"_s:file_name"
PARTITION: Final = b"_s:partition_path"
SEVERAL: Final = b"_s:several"
"""Beside the others, and of their time stamp, where the key is in more file groups than this one. Hudi does not ask."""
MARKER_KEY: Final = b"\xff\xfelakeindex"
"""Row that no record key can be: it is not UTF-8. It sorts behind all of them."""
FOR_EVER: Final = 2**31 - 1
LONGEST_KEY: Final = 32_767
"""Bytes of a row key, at most: HBase keeps the length in 16 bits with a sign."""

_I = TypeVar("_I")


class Row(Frozen):
    """One row.

    Attributes:
        commit: instant in which the key entered the file group.
        stamp: time stamp of the commit cell, milliseconds; 0 in rows to be put.
        several: the key is in more file groups than this one.
    """

    commit: str
    file_id: str
    partition: str
    stamp: int = 0
    several: bool = False

    @property
    def place(self) -> tuple[str, str]:
        """Partition path and file id."""
        return self.partition, self.file_id


class HBaseRows(Struct):
    """Rows of one HBase table. Not for use by several threads at once.

    Args:
        rate: bound of rows a second, if there is one.
    """

    client: HBaseClient
    get_batch: int = 1000
    put_batch: int = 1000
    rate: RowRate | None = None

    @property
    def _name(self) -> bytes:
        return self.client.table.encode()

    # --- the table ---------------------------------------------------------------------------------------------

    def check(self, *, create: bool, retry_seconds: float | None = None) -> None:
        """See that the table and its family are there and keep what is put.

        Args:
            create: make the table if it is not there.
            retry_seconds: how long to try; default: as for every call.

        Raises:
            HBaseUnavailableError: no answer.
            HBaseTableError: there is no such table or family, or the family forgets rows.
        """
        try:
            families = self.client.call(lambda c: c.getColumnDescriptors(self._name), retry_seconds)
        except HBaseTableError:
            if not create:
                raise
            self._create()
            families = self.client.call(lambda c: c.getColumnDescriptors(self._name))
        family = families.get(FAMILY + b":")
        if family is None:
            raise HBaseTableError(
                f"table {self.client.table!r} of HBase at {self.client.address} has no family '_s'",
                culprit=self.client.table,
                hint=f"add it in the HBase shell: alter '{self.client.table}', {{NAME=>'_s', VERSIONS=>{VERSIONS}}}",
            )
        if family.timeToLive not in (-1, 0, FOR_EVER):
            raise HBaseTableError(
                f"family '_s' of table {self.client.table!r} forgets rows after {family.timeToLive} s",
                culprit=self.client.table,
                hint=f"an index must not: alter '{self.client.table}', {{NAME=>'_s', TTL=>'FOREVER'}}",
            )

    def _create(self) -> None:
        def do(client: Any) -> None:
            descriptor = ColumnDescriptor(name=FAMILY + b":", maxVersions=VERSIONS)
            try:
                client.createTable(self._name, [descriptor])
            except AlreadyExists:
                return  # somebody else, or our own call whose answer was lost

        self.client.call(do)

    # --- reading -----------------------------------------------------------------------------------------------

    def get(self, keys: Sequence[str]) -> dict[str, Row]:
        """The rows that are there, by key; batch by batch, the whole family (half the time of three named columns)."""
        found: dict[str, Row] = {}
        for batch in _batches(iter(keys), self.get_batch):
            asked = [row_key(key) for key in batch]
            self._pace(len(asked))
            answer = self.client.call(partial(self._get_some, asked))
            for one in answer:
                found[one.row.decode()] = _row(one.columns)
        return found

    def _get_some(self, keys: list[bytes], client: Any) -> list[Any]:
        rows: list[Any] = client.getRowsWithColumns(self._name, keys, [FAMILY], {})
        return rows

    def get_before(self, rows: Mapping[str, Row]) -> dict[str, Row]:
        """What was there before some rows were put, as far as the family keeps older versions."""
        by_stamp: dict[int, list[bytes]] = {}
        for key, row in rows.items():
            by_stamp.setdefault(row.stamp, []).append(row_key(key))
        found: dict[str, Row] = {}
        for stamp, keys in by_stamp.items():
            for asked in _batches(iter(keys), self.get_batch):
                self._pace(len(asked))
                for one in self.client.call(partial(self._get_some_before, stamp, asked)):
                    found[one.row.decode()] = _row(one.columns)
        return found

    def _get_some_before(self, stamp: int, keys: list[bytes], client: Any) -> list[Any]:
        rows: list[Any] = client.getRowsWithColumnsTs(self._name, keys, [FAMILY], stamp, {})
        return rows

    def scan(self) -> Iterator[tuple[str, Row]]:
        """All rows but the marker, in order of their keys.

        A scan that loses its connection goes on behind the last row that came.
        """
        start = b""
        while True:
            rows = self.client.call(partial(self._scan_some, start))
            for one in rows:
                if one.row != MARKER_KEY:
                    yield one.row.decode(), _row(one.columns)
            if not rows:
                return
            start = rows[-1].row + b"\x00"

    def _scan_some(self, start: bytes, client: Any) -> list[Any]:
        """Some rows from ``start`` on, all in one call's reach: nothing is kept on the server between two calls."""
        size = self.get_batch * 5
        scan = TScan(startRow=start, columns=[FAMILY], caching=size)
        scanner = client.scannerOpenWithScan(self._name, scan, {})
        rows: list[Any] = []
        try:
            while len(rows) < size * 4:
                some = client.scannerGetList(scanner, size)
                rows += some
                if not some:
                    break
        finally:
            client.scannerClose(scanner)
        return rows

    # --- writing -----------------------------------------------------------------------------------------------

    def put(self, rows: Iterable[tuple[str, Row]], stamp: int) -> int:
        """Put rows with one time stamp; how many."""
        count = 0
        for batch in _batches(iter(rows), self.put_batch):
            self._mutate([BatchMutation(row_key(key), _puts(row)) for key, row in batch], stamp)
            count += len(batch)
        return count

    def delete(self, keys: Iterable[str], stamp: int) -> None:
        """Delete what is not newer than a time stamp of some rows."""
        for batch in _batches(iter(keys), self.put_batch):
            self._mutate([BatchMutation(row_key(key), [Mutation(True, FAMILY)]) for key in batch], stamp)

    def delete_if_commit(self, keys: Sequence[str], commit: str) -> int:
        """Delete those of some rows that have this ``commit_ts``, up to the cell that was seen; how many.

        What is put meanwhile is newer than that cell, and stays.
        """
        stamps: dict[int, list[str]] = {}
        for key, row in self.get(keys).items():
            if row.commit == commit:
                stamps.setdefault(row.stamp, []).append(key)
        for stamp, mine in stamps.items():
            self.delete(mine, stamp)
        return sum(len(mine) for mine in stamps.values())

    def _mutate(self, mutations: list[Any], stamp: int) -> None:
        self._pace(len(mutations))
        self.client.call(lambda c: c.mutateRowsTs(self._name, mutations, stamp, {}))

    # --- the marker --------------------------------------------------------------------------------------------

    def marker(self, column: bytes) -> tuple[bytes, int] | None:
        """A cell of the marker row with its time stamp."""
        rows = self.client.call(lambda c: c.getRowWithColumns(self._name, MARKER_KEY, [column], {}))
        if not rows or column not in rows[0].columns:
            return None
        cell = rows[0].columns[column]
        return cell.value, cell.timestamp

    def swap_marker(self, column: bytes, before: bytes | None, after: bytes) -> bool:
        """Replace a cell of the marker row if it still is ``before`` (None: not there); whether it was.

        An answer that was lost may be repeated by a False: read the cell to know.
        """
        mutation = Mutation(False, column, after)
        swapped: bool = self.client.call(lambda c: c.checkAndPut(self._name, MARKER_KEY, column, before, mutation, {}))
        return swapped

    def server_time(self) -> int:
        """The server's clock, milliseconds: the time stamp it gives to a cell now."""
        column = FAMILY + b":clock"
        self.client.call(lambda c: c.mutateRow(self._name, MARKER_KEY, [Mutation(False, column, b"")], {}))
        cell = self.marker(column)
        if cell is None:
            raise HBaseTableError(
                f"table {self.client.table!r} of HBase at {self.client.address} does not keep what is put into it",
                culprit=self.client.table,
                hint="look into the logs of its region servers",
            )
        return cell[1]

    def delete_marker(self) -> None:
        self.client.call(lambda c: c.deleteAllRow(self._name, MARKER_KEY, {}))

    def _pace(self, rows: int) -> None:
        if self.rate is not None:
            self.rate.wait(rows)


def row_key(key: str) -> bytes:
    """The row of a record key. Raises: InputError: HBase cannot have such a row."""
    encoded = key.encode()
    if not 0 < len(encoded) <= LONGEST_KEY:
        raise InputError(
            f"record key {key[:40]!r} has {len(encoded)} bytes; the row key of HBase has 1 .. {LONGEST_KEY}",
            culprit=key[:200],
            hint="choose another index type: lakeindex index migrate TABLE --to RECORD_INDEX",
        )
    return encoded


def _puts(row: Row) -> list[Any]:
    return [
        Mutation(False, COMMIT, row.commit.encode()),
        Mutation(False, FILE, row.file_id.encode()),
        Mutation(False, PARTITION, row.partition.encode()),
        *([Mutation(False, SEVERAL, b"")] if row.several else []),
    ]


def _row(cells: Mapping[bytes, Any]) -> Row:
    """A row as it came; what it lacks is empty, which is no location."""

    def text(column: bytes) -> str:
        return cells[column].value.decode(errors="replace") if column in cells else ""

    stamp = cells[COMMIT].timestamp if COMMIT in cells else max((c.timestamp for c in cells.values()), default=0)
    several = SEVERAL in cells and cells[SEVERAL].timestamp >= stamp
    return Row(text(COMMIT), text(FILE), text(PARTITION), stamp, several)


def _batches(items: Iterator[_I], size: int) -> Iterator[list[_I]]:
    while batch := list(islice(items, size)):
        yield batch


VERSIONS: Final = 3
_MOST_ANSWER_SECONDS: Final = 60.0
_NO_TABLE: Final = ("TableNotFoundException", "NoSuchColumnFamilyException", "TableNotEnabledException")
_T = TypeVar("_T")


class HBaseAddress(Frozen):
    """Where the Thrift server is, how long to wait for it, and how long a call is repeated before it is given up."""

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


class _Connection(Frozen):
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
        for process, address in list(self._idle):
            if process == os.getpid():
                self.close(address)


_pool: Final = _Pool()
atexit.register(_pool.close_all)


class HBaseClient(Frozen):
    """A client of one table (``namespace:name`` outside the default namespace); any thread may use it."""

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
