"""Writers at the same file groups: commits, lost attempts, exits, seconds. ``python -m tests.processes.contention 8 3``.

Each of N processes upserts K batches, one after the other, and all batches change rows of the same file groups. A lost attempt is
one whose instant was rolled back (it was planned, and files may have been written), and a late one found out before it planned.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from tests.builders import Row, batch_of, make_table
from tests.processes.fleet import Process, options

#: Rows of the table: three partitions, a file group each.
STORED = 3000
#: Rows of a batch: spread over all file groups.
BATCH = 60


@dataclass
class Contention:
    """What was measured.

    Attributes:
        writers: processes.
        commits: batches that ended with exit code 0.
        rollbacks: instants that were planned and rolled back.
        ends: how often each exit code was given.
        seconds: from the first command to the last answer.
        slowest: seconds of the slowest batch.
    """

    writers: int
    commits: int = 0
    rollbacks: int = 0
    ends: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    said: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.writers} writers: {self.commits} commits, {self.rollbacks} rolled back, exits "
            f"{json.dumps(dict(sorted(self.ends.items())))}, {self.seconds:.1f} s, slowest batch {self.slowest:.1f} s"
        )


def _batch(folder: Path, writer: int, number: int) -> Path:
    ts = 10 + number * 100 + writer
    rows = [
        Row(f"k{(writer * 7 + i * (STORED // BATCH)) % STORED:05d}", "", ts, f"{writer}-{number}") for i in range(BATCH)
    ]
    path = folder / f"batch-{writer}-{number}.parquet"
    pq.write_table(batch_of(Row(r.id, f"d{int(r.id[1:]) % 3}", r.ts, r.v) for r in rows), path)
    return path


def measure(folder: Path, writers: int, batches: int, lock_wait: int = 300) -> Contention:
    """Let the writers loose on a fresh table."""
    table = make_table(folder / "t")
    table.upsert(batch_of(Row(f"k{n:05d}", f"d{n % 3}", 1, "base") for n in range(STORED)))
    found = Contention(writers)
    mutex = threading.Lock()
    log = folder / "processes.log"
    processes = [Process(log) for _ in range(writers)]
    for number, process in enumerate(processes):  # what the first command of a process loads is not contention
        own = make_table(folder / f"own-{number}")
        process.send("upsert", own.uri, _batch(folder, number, 99))
    assert [process.answer() for process in processes], "no process works"

    def work(writer: int) -> None:
        for number in range(batches):
            path = _batch(folder, writer, number)
            arguments = ["upsert", table.uri, path, "--batch-id", f"b{writer}-{number}"]
            answer = processes[writer].run(*arguments, *options(lakeindex__lock__wait=lock_wait))
            with mutex:
                found.ends[answer.code] += 1
                found.commits += answer.code == 0
                found.slowest = max(found.slowest, answer.seconds)
                if answer.code:
                    found.said.append(answer.text)

    begun = time.monotonic()
    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(work, range(writers)))
    found.seconds = time.monotonic() - begun
    for process in processes:
        process.close()
    found.rollbacks = len(list((folder / "t" / ".hoodie").glob("*.rollback")))
    report = table.check()
    assert report.ok, report.violations
    return found


def main() -> None:
    """Measure and print."""
    writers, batches = (int(text) for text in (sys.argv[1:3] or ("8", "3")))
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), writers, batches)
        sys.stdout.write("\n".join([str(found), *found.said, ""]))


if __name__ == "__main__":
    main()
