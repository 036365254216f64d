"""Client of :mod:`tests.interop.hudi_server`: real Hudi as an object of the test process."""

from __future__ import annotations

import copy
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scripts import interop_env

_SERVER: Final = Path(__file__).with_name("hudi_server.py")

#: Only makes small jobs quick.
_SMALL: Final[dict[str, str]] = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
    "hoodie.bloom.index.parallelism": "2",
    "hoodie.index.bloom.num_entries": "2000",
    "hoodie.bloom.index.filter.dynamic.max.entries": "10000",
}


#: A metadata table with what our commits keep up.
ONLY_FILES: Final[dict[str, str]] = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
METADATA: Final = "LAKEINDEX_INTEROP_METADATA"
"""``files``: Hudi keeps a metadata table wherever a test does not say otherwise, and so do we."""


def keep_options(version: str, table_version: int = 6) -> dict[str, str]:
    """Write options with which a Hudi release leaves a table as it is: of its version, and without a metadata table,
    unless the suite is played with one.
    """
    keep = ONLY_FILES if os.environ.get(METADATA) == "files" else {"hoodie.metadata.enable": "false"}
    return {**keep, **kept_version(version, table_version), **_SMALL, "hoodie.index.type": "BLOOM"}


def kept_version(version: str, table_version: int) -> dict[str, str]:
    """Write options with which a Hudi release leaves a table's version as it is."""
    if version == "0.15.0":
        return {}
    return {"hoodie.write.table.version": str(table_version), "hoodie.write.auto.upgrade": "false"}


def _counts_request(
    path: Path, filters: Sequence[str], options: Mapping[str, str], *, together: bool = False
) -> dict[str, Any]:
    return {"op": "counts", "path": str(path), "filters": list(filters), "options": dict(options), "together": together}


class HudiError(Exception):
    """Hudi (or Spark) refused or failed; the message holds the chain of causes, innermost first."""


@dataclass
class _Shared:
    """What all views of one process have in common: how many files it was given, and the process once it was asked for."""

    count: int = 0
    process: subprocess.Popen[str] | None = None


@contextmanager
def in_zone(zone: str = "UTC") -> Iterator[None]:
    """This process is in a server's time zone, as on one machine: instants are local time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        try:
            yield
        finally:
            patch.undo()
            time.tzset()


class HudiServer:
    """One Hudi release in a process of its own, which starts with the first request.

    Attributes:
        version: the release.
        table_version: version of the tables that it writes.

    Args:
        version: a key of ``interop_env.BUNDLES``.
        scratch: folder for exchanged files and the log.
        memory: heap of the JVM.
        quick: compile lightly; jobs on a few rows take half the time, big ones longer.
        zone: time zone of the JVM, which Hudi's instants are in unless the table says UTC.
        conf: more settings of the Spark session.
    """

    def __init__(
        self,
        version: str,
        scratch: Path,
        memory: str = "1500m",
        *,
        quick: bool = True,
        zone: str = "UTC",
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.table_version = 6
        self.log = scratch / "server.log"
        self._scratch = scratch
        self._shared = _Shared()
        self._answers: queue.Queue[str] = queue.Queue()
        scratch.mkdir(parents=True, exist_ok=True)
        self._memory = memory
        self._conf = json.dumps(dict(conf or {}))
        self._java_options = (
            f"-Duser.timezone={zone} --add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED -XX:+UseSerialGC"
            + (f" -Xms{memory} -XX:NewRatio=1 -XX:TieredStopAtLevel=1" if quick else " -Xmn2g")
        )

    @property
    def default(self) -> int:
        """Version of the tables that the release makes by default."""
        return interop_env.BUNDLES[self.version].default

    @property
    def release(self) -> tuple[int, ...]:
        """The release as numbers, to be compared."""
        return tuple(int(one) for one in self.version.split("."))

    def _start(self, timeout: float) -> subprocess.Popen[str]:
        command = [str(interop_env.python()), str(_SERVER), str(interop_env.bundle(self.version)), str(self._scratch)]
        command += [self._memory, self._java_options, self._conf]
        with self.log.open("wb") as log:
            self._shared.process = process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=interop_env.environment(),
                cwd=self._scratch,
                text=True,
            )
        threading.Thread(target=self._pump, args=(process,), daemon=True).start()
        self._answer(process, timeout)
        return process

    def writing(self, table_version: int) -> HudiServer:
        """The same process, writing tables of another version."""
        other = copy.copy(self)
        other.table_version = table_version
        return other

    def _pump(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _answer(self, process: subprocess.Popen[str], timeout: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            process.kill()
            raise TimeoutError(f"Hudi {self.version}: no answer in {timeout} s; see {self.log}") from None
        if not line:
            raise HudiError(f"the process of Hudi {self.version} ended: {self.log.read_text(errors='replace')[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise HudiError(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, op: str, timeout: float = 240.0, **request: object) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            HudiError: the operation failed in Hudi.
            TimeoutError: no answer; the process is killed.
        """
        process = self._shared.process or self._start(timeout)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"op": op, **request}) + "\n")
        process.stdin.flush()
        return self._answer(process, timeout)

    def _file(self, suffix: str) -> Path:
        self._shared.count += 1
        return self._scratch / f"{self._shared.count:05d}{suffix}"

    def write(self, path: Path | str, rows: pa.Table, options: Mapping[str, str], *, mode: str = "append") -> None:
        """Write rows with Hudi; ``hoodie.datasource.write.operation`` and the rest come from the options."""
        sent = self._file(".parquet")
        pq.write_table(rows, sent)
        self.call("write", path=str(path), input=str(sent), mode=mode, options=dict(options))
        sent.unlink()

    def read(self, path: Path | str, options: Mapping[str, str] | None = None, where: str = "") -> pa.Table:
        """Read a table with Hudi, meta columns included."""
        request = self._read_request(path, options, where)
        self.call(**request)
        return pq.read_table(request["out"])

    def counts(
        self, path: Path, filters: Sequence[str], options: Mapping[str, str], *, together: bool = False
    ) -> list[int]:
        """How many rows each of several filters finds, each by itself or all by one pass over all rows."""
        found: list[int] = self.call(**_counts_request(path, filters, options, together=together))["counts"]
        return found

    def read_and_count(
        self,
        path: Path,
        readings: Sequence[Mapping[str, str]],
        filters: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> tuple[list[pa.Table], list[int]]:
        """The table by several sets of options, and what filters find by :meth:`counts`, all at once."""
        reads = [self._read_request(path, one) for one in readings]
        counting = [_counts_request(path, filters, options or {})] if filters else []
        results = self.call("several", requests=[*reads, *counting])["results"]
        return [pq.read_table(one["out"]) for one in reads], results[-1]["counts"] if counting else []

    def _read_request(
        self, path: Path | str, options: Mapping[str, str] | None = None, where: str = ""
    ) -> dict[str, Any]:
        out = str(self._file(".rows"))
        return {"op": "read", "path": str(path), "out": out, "options": dict(options or {}), "filter": where}

    def as_of(self, path: Path, instant: str) -> pa.Table:
        """Time travel: the table as it was right after an instant."""
        return self.read(path, {"as.of.instant": instant})

    def since(self, path: Path, begin: str, end: str | None = None) -> pa.Table:
        """Incremental read: rows written after ``begin`` (exclusive) up to ``end`` (inclusive)."""
        options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begin}
        if end is not None:
            options["hoodie.datasource.read.end.instanttime"] = end
        return self.read(path, options)

    def compile(self, source: Path) -> None:
        """Add a Java class to those that Hudi finds."""
        self.call("compile", source=source.read_text(), scratch=str(self._scratch))

    def lock(self, path: Path | str, options: Mapping[str, str], seconds: int = 1) -> bool:
        """Try to take a table's lock with Hudi's own provider; whether it was had."""
        had: bool = self.call("lock", path=str(path), options=dict(options), seconds=seconds)["had"]
        return had

    def unlock(self, path: Path | str) -> None:
        """Let go of it."""
        self.call("unlock", path=str(path))

    def archived(self, path: Path) -> dict[str, int]:
        """The completed instants of the archived timeline, as Hudi prints them, and the bytes it has of each."""
        details: dict[str, int] = self.call("archived", path=str(path))["details"]
        return details

    def sql(self, statement: str) -> list[list[str | None]]:
        """Run a SQL statement, a procedure call for example. What it sets stays set in every later case: see :meth:`settings`."""
        rows: list[list[str | None]] = self.call("sql", statement=statement)["rows"]
        return rows

    @contextmanager
    def settings(self, told: Mapping[str, str]) -> Iterator[None]:
        """Settings of the session for a while."""
        try:
            for key, value in told.items():
                self.sql(f"set {key}={value}")
            yield
        finally:
            for key in told:
                self.sql(f"reset {key}")

    def hive_sync(self, *words: str) -> None:
        """Sync with a Hive Metastore by Hudi's ``HiveSyncTool``."""
        self.call("hive_sync", words=words)

    def close(self) -> None:
        """End the process, if there is one: it stops when its input ends."""
        process = self._shared.process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
