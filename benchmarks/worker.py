"""A peer in a process of its own, so that its memory, CPU and threads are its own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.peers import open_peer
from benchmarks.workloads import Totals, Workload


class PeerError(Exception):
    """The peer failed; the message is its traceback."""


def _host(name: str, pipe: Connection) -> None:
    sys.dont_write_bytecode = False  # as in measuring.with_stored_modules: what a peer loads late is compiled once
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        peer = open_peer(name)
        pipe.send((True, None))
        while (request := pipe.recv()) is not None:
            method, arguments = request
            answer = getattr(peer, method)(*arguments)
            if method == "totals":
                _give_back()
            pipe.send((True, answer))
        peer.close()
    except EOFError:
        peer.close()
    except Exception:  # noqa: BLE001 - the boundary of the process: the other end raises it again
        pipe.send((False, traceback.format_exc()))


def _give_back() -> None:
    """Hand freed memory back to the system: what the last upsert took, or judging it, does not belong to the next."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


class PeerProcess:
    """Client of one peer's process; ready (imported, session up) when the constructor returns.

    Raises:
        PeerError: from any method, when the peer failed; the process has ended then.
    """

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_host, args=(name, other))
        self._process.start()
        other.close()
        self._receive()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def _receive(self) -> Any:
        try:
            fine, result = self._pipe.recv()
        except EOFError:
            raise PeerError("the peer's process died") from None
        if not fine:
            raise PeerError(result)
        return result

    def _call(self, method: str, *arguments: object) -> Any:
        self._pipe.send((method, arguments))
        return self._receive()

    def load(self, workload: Workload, table: Path) -> None:
        self._call("load", workload, table)

    def upsert(self, workload: Workload, table: Path) -> None:
        self._call("upsert", workload, table)

    def totals(self, table: Path) -> Totals:
        totals: Totals = self._call("totals", table)
        return totals

    def close(self) -> None:
        if self._process.is_alive():
            with contextlib.suppress(BrokenPipeError):
                self._pipe.send(None)
        self._process.join(60)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()
