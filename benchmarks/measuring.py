"""What one timed step costs: wall time, CPU of a process tree and of everybody else, peak memory, bytes written."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeVar

import psutil

T = TypeVar("T")
_SAMPLE_SECONDS: Final = 0.1
_WRITTEN: Final = (":!benchmarks/results", ":!benchmarks/README.md", ":!docs")
#: How a table's data files end.
_DATA_FILES: Final = (".parquet", ".lance")


@dataclass
class Usage:
    """Cost of one step; filled in when the step ends.

    Attributes:
        seconds: wall time.
        cpu_seconds: CPU of the peer's process tree, children that ended included.
        others_cpu_seconds: CPU that the rest of the machine used meanwhile: a measure of noise.
        peak_bytes: highest resident memory of the tree, sampled.
        encoded_bytes: of data files, if it was asked: :func:`encoded_bytes`.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    others_cpu_seconds: float = 0.0
    peak_bytes: int = 0
    encoded_bytes: int = 0


def _tree(root: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _tree_cpu(root: int) -> float:
    total = 0.0
    for process in _tree(root):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _tree_bytes(root: int) -> int:
    total = 0
    for process in _tree(root):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total


def _machine_cpu() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


@dataclass
class _Sampler:
    root: int
    peak: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.done.wait(_SAMPLE_SECONDS):
            self.peak = max(self.peak, _tree_bytes(self.root))


@contextlib.contextmanager
def measured(root: int) -> Iterator[Usage]:
    """Measure the body; ``root`` is the process whose tree does the work."""
    usage = Usage()
    sampler = _Sampler(root, _tree_bytes(root))
    thread = threading.Thread(target=sampler.run, daemon=True)
    thread.start()
    cpu, machine, start = _tree_cpu(root), _machine_cpu(), time.perf_counter()
    try:
        yield usage
    finally:
        usage.seconds = time.perf_counter() - start
        usage.cpu_seconds = _tree_cpu(root) - cpu
        usage.others_cpu_seconds = max(0.0, _machine_cpu() - machine - usage.cpu_seconds)
        sampler.done.set()
        thread.join()
        usage.peak_bytes = max(sampler.peak, _tree_bytes(root))


def apart(function: Callable[..., T], *arguments: object) -> T:
    """Call it in a process of its own: what it loads and keeps is not in the memory of later steps."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(function, *arguments).result()


def restore(source: Path, target: Path) -> None:
    """A fresh copy of a base table, on disk and out of the way of what is measured next."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    os.sync()


Listing = dict[str, tuple[int, int]]


def listing(root: Path) -> Listing:
    """Relative path -> (size, mtime in ns) of every file; Hadoop's side files do not count."""
    found: Listing = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.name.endswith(".crc"):
            stat = path.stat()
            found[path.relative_to(root).as_posix()] = (stat.st_size, stat.st_mtime_ns)
    return found


def data_files(paths: Iterable[str]) -> list[str]:
    """Those that are data of a table, and no metadata or index."""
    return [path for path in paths if path.endswith(_DATA_FILES) and not path.startswith((".", "_"))]


@dataclass(frozen=True)
class Written:
    """What a step left on disk: data files of the table, and everything else."""

    data_files: int
    data_bytes: int
    other_bytes: int


def _changed(before: Listing, after: Listing) -> dict[str, int]:
    return {path: size for path, (size, mtime) in after.items() if before.get(path) != (size, mtime)}


def written(before: Listing, after: Listing) -> Written:
    """New and changed files between two listings."""
    new = _changed(before, after)
    data = [new[path] for path in data_files(new)]
    return Written(len(data), sum(data), sum(new.values()) - sum(data))


def encoded_bytes(table: Path, before: Listing) -> int:
    """Bytes of data files that are new since a listing of the table's folder's folder, where lakeindex has its runs,
    too; less those that it says it copied.
    """
    new = _changed(before, listing(table.parent))
    inside = {
        path.removeprefix(f"{table.name}/"): size for path, size in new.items() if path.startswith(f"{table.name}/")
    }
    told = [json.loads((table.parent / path).read_text()) for path in new if path.endswith("/summary.json")]
    return sum(inside[path] for path in data_files(inside)) - sum(one["bytes_copied"] for one in told)


def with_stored_modules(env: Mapping[str, str]) -> dict[str, str]:
    """An environment for programs that are timed from their start: modules are compiled once and stored, as is
    Python's default, which images of containers often turn off.
    """
    return {name: text for name, text in env.items() if name != "PYTHONDONTWRITEBYTECODE"}


def commit() -> str:
    """What git calls the checkout; ``-dirty`` if more of it was changed than what measuring writes."""
    name = _git("describe", "--always")
    return f"{name}-dirty" if _git("status", "--porcelain", "--untracked-files=no", "--", ".", *_WRITTEN) else name


def _git(*words: str) -> str:
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=root)
    return done.stdout.strip() or ("" if words[0] == "status" else "unknown")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def machine_line() -> str:
    """One line that says on what the numbers were taken."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = models[0] if models else model
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{psutil.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the start"
    )
