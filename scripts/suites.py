"""Run the suites, two at once where one mostly waits, and say how long each took and what it cost.

    scripts/suites.py                  all that must hold before a change lands (.ci/run)
    scripts/suites.py test model       some of them
    scripts/suites.py --alone --page   one after the other, for the table of docs/testing.md (make test-times)

Standard library only. Each suite has a limit of its own, and all together one, so that the summary is printed before a
CI ends the run. What a suite prints is printed as a whole when it ends. Exit 0 only if all ran and passed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/testing.md"
MARK: Final = re.compile(r"(?<=<!-- made by scripts/suites\.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
#: Of all suites together, in seconds.
LIMIT: Final = 5200
COUNTS: Final = re.compile(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [0-9.]+s", re.MULTILINE)

#: Cutting the power at every call takes an hour, failing every call of what is left out here twenty minutes;
#: `make test` does it at some of them, `make model` weekly at all.
MODEL_WEEKLY: Final = (
    "power_may_be_cut_at_every_call or part1 or part2 or part3 or changing_rows_survives_every"
    " or overwriting_survives_every or deleting_partitions_survives_every or file-8 or file-9"
)


@dataclass(frozen=True)
class Suite:
    """A target of make with the arguments that a change's run gives it.

    Attributes:
        limit: seconds after which it is ended.
        needs: a command without which it is left out.
    """

    target: str
    limit: int
    arguments: tuple[str, ...] = ()
    needs: str = "make"

    @property
    def command(self) -> list[str]:
        return ["make", "--no-print-directory", self.target, *self.arguments]


@dataclass(frozen=True)
class Outcome:
    """What became of a suite: its seconds by the clock and of CPU (with what it started), and what it counted."""

    suite: Suite
    code: int
    seconds: float
    cpu: float
    counted: str

    def __str__(self) -> str:
        said = "ok" if self.code == 0 else f"FAILED ({self.code})"
        return f"{self.suite.target:<16} {self.seconds:5.0f} s  {self.cpu:5.0f} s of CPU  {said}  {self.counted}"


FIRST: Final = (Suite("setup", 600), Suite("archive", 300))
#: Lanes run at once: the first computes on both cores, the second mostly waits for servers and JVMs that it starts. A
#: lane that is through takes from the end of the other.
LANES: Final = (
    (
        Suite("lint", 300),
        Suite("docs", 300),
        Suite("test", 3000),
        Suite("test-slow", 1500, ("LAKEINDEX_IN_TURNS=4",)),
        Suite("model", 2700, (f"MODEL=not ({MODEL_WEEKLY})", "LAKEINDEX_MODEL_LIMIT=50", "LAKEINDEX_IN_TURNS=3")),
    ),
    (
        Suite("interop", 1800, ("LAKEINDEX_INTEROP=sixth",)),
        Suite("test-cluster", 900),
        Suite("browser", 900),
        Suite("test-demo", 1200),
        Suite("test-hbase", 1200),
        Suite("s3", 600),
        Suite("azure", 450, needs="npm"),
        Suite("hdfs", 450),
        Suite("hive", 450),
        Suite("processes", 900),
        Suite("kill", 900),
        Suite("wheel", 1500),
        Suite("test-old-python", 900),
    ),
)


class Run:
    """Suites that are run for one summary; lanes add to it."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.outcomes: list[Outcome] = []
        self._begun = time.monotonic()
        self._printing = threading.Lock()
        self._taking = threading.Lock()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def failed(self) -> list[Outcome]:
        """Those that did not pass."""
        return [outcome for outcome in self.outcomes if outcome.code]

    def log(self, suite: Suite) -> Path:
        return self.logs / suite.target

    def run(self, suite: Suite) -> None:
        """Run one to its end or its limit, and print what it said."""
        if shutil.which(suite.needs) is None:
            print(f"{suite.target}: left out, it needs {suite.needs}", flush=True)
            return
        print(f"---- {suite.target} begins, at {self.seconds:.0f} s", flush=True)
        begun, left = time.monotonic(), min(suite.limit, LIMIT - self.seconds)
        with self.log(suite).open("wb") as log:
            code, cpu = run_within(suite.command, left, log.fileno()) if left > 0 else (125, 0.0)
        said = self.log(suite).read_text(errors="replace")
        if code in {124, 125}:
            said += f"\n{suite.target}: ended after {max(left, 0):.0f} s\n"
            self.log(suite).write_text(said)
        counts = COUNTS.findall(said)
        outcome = Outcome(suite, code, time.monotonic() - begun, cpu, counts[-1] if counts else "")
        with self._printing:
            print(f"\n==== {suite.target}\n{said}", flush=True)
            self.outcomes.append(outcome)

    def run_all(self, lane: deque[Suite], lanes: Sequence[deque[Suite]] = ()) -> None:
        """Run a lane, and then what other lanes have not begun, from their ends."""
        while suite := self._next(lane, lanes):
            self.run(suite)

    def _next(self, lane: deque[Suite], lanes: Sequence[deque[Suite]]) -> Suite | None:
        with self._taking:
            longest = max(lanes, key=len, default=lane)
            return lane.popleft() if lane else longest.pop() if longest else None

    def summary(self) -> str:
        """What failed, shortened, where whoever reads the end of the log finds it; then a line for each suite."""
        parts = []
        for outcome in self.failed:
            said = self.log(outcome.suite).read_text(errors="replace")
            failures = said[said.rfind("= FAILURES =") :] if "= FAILURES =" in said else ""
            shown = [line for line in failures.splitlines() if "SKIPPED" not in line][:150]
            parts += [f"\n==== what failed in {outcome.suite.target}", *shown, *said.splitlines()[-15:]]
        parts += [f"\n==== summary, {self.seconds:.0f} s", *map(str, self.outcomes)]
        for outcome in self.failed:
            said = self.log(outcome.suite).read_text(errors="replace")
            parts += [line[:300] for line in re.findall(r"^(?:FAILED|ERROR|E  ) .*", said, re.MULTILINE)[-20:]]
        if self.failed:
            parts.append("failed: " + " ".join(outcome.suite.target for outcome in self.failed))
        return "\n".join(parts)


def run_within(command: list[str], seconds: float, output: int) -> tuple[int, float]:
    """Run a command in a session of its own; after some seconds it is ended with all that it started.

    Returns:
        Its exit code, 124 if it was ended; the seconds of CPU that it took, and those of its children it waited for.
    """
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )
    ended = threading.Event()

    def end(how: signal.Signals) -> None:
        ended.set()
        os.killpg(process.pid, how)

    timers = [threading.Timer(seconds, end, [signal.SIGTERM]), threading.Timer(seconds + 30, end, [signal.SIGKILL])]
    for timer in timers:
        timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    for timer in timers:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return 124 if ended.is_set() else process.returncode, usage.ru_utime + usage.ru_stime


def write_page(outcomes: list[Outcome], *, alone: bool) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    rows = [
        f"| `make {outcome.suite.target}` | {outcome.seconds:.0f} | {outcome.cpu:.0f} | {outcome.counted} |"
        for outcome in outcomes
    ]
    machine = f"{os.cpu_count()} cores, Python {sys.version.split()[0]}"
    how = "one suite at a time" if alone else "two lanes at once"
    table = [
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}, {machine}, {how}.",
        "",
        "| suite | seconds | of CPU | cases |",
        "|---|---|---|---|",
        *rows,
    ]
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARK.sub(lambda _: "\n".join(table) + "\n", page), encoding="utf-8")


def main() -> int:
    """Run them; 1 if one failed."""
    every = {suite.target: suite for lane in LANES for suite in lane}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(every))
    parser.add_argument("--alone", action="store_true", help="one after the other")
    parser.add_argument("--page", action="store_true", help="make the table of docs/testing.md")
    given = parser.parse_args()
    if unknown := set(given.suites) - set(every):
        parser.error(f"no suite is called {', '.join(sorted(unknown))}: {', '.join(every)}")
    lanes = [deque(suite for suite in lane if not given.suites or suite.target in given.suites) for lane in LANES]
    if given.alone:
        lanes = [deque(suite for lane in lanes for suite in lane)]
    with tempfile.TemporaryDirectory() as logs:
        run = Run(Path(logs))
        run.run_all(deque(FIRST))
        if not run.failed:
            with ThreadPoolExecutor(len(lanes)) as pool:
                list(pool.map(partial(run.run_all, lanes=lanes), lanes))
        print(run.summary(), flush=True)
    if given.page:
        write_page(run.outcomes[len(FIRST) :], alone=given.alone)
    return int(bool(run.failed))


if __name__ == "__main__":
    sys.exit(main())
