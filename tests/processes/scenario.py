"""One seed: several writers and one who keeps the table, all real processes, some of them killed or frozen.

The seed fixes what each of them does and what happens to it; how their steps interleave is the machine's, so a seed that failed
once is to be run some more times.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
from hudi import HudiTableBuilder

from lakeindex.api.table import LakeTable
from lakeindex.storage import open_storage
from tests.builders import make_table
from tests.processes.dictionary import Batch, Dictionary
from tests.processes.fleet import Answer, Process, options

#: The shortest lease there is: a frozen process is passed after one and a half of it.
LEASE: Final = 2
FROZEN: Final = (3.5, 5.0)
WRITE: Final = options(lakeindex__lock__lease=LEASE, lakeindex__lock__wait=120)
#: Times that a batch is sent again before the run counts as stuck.
TRIES: Final = 12
#: Indexes of the tables, with what can be done to them meanwhile.
KINDS: Final = ("BLOOM", "BUCKET", "GLOBAL_BLOOM", "SIMPLE", "RECORD_INDEX", "BUCKET")
CONFLICT: Final = 5
_REFUSED: Final = frozenset({"UsageError", "TableUnsupportedError"})


@dataclass
class Scenario:
    """See the module.

    Attributes:
        seed: the seed.
        uri: the table, on whatever store.
        folder: a local folder for batches and logs.
        seconds: how long new commands are begun.
        findings: what should not be, in words.
        did: what was done, how often.
    """

    seed: int
    uri: str
    folder: Path
    seconds: float
    findings: list[str] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        choose = random.Random(f"processes {self.seed}")
        self.kind = KINDS[self.seed % len(KINDS)]
        self.writers = choose.choice((2, 3, 4)) if self.seconds < 60 else choose.randint(2, 8)
        self.oracle = Dictionary(self.folder, moves=self.kind.startswith("GLOBAL"))
        self._mutex = threading.Lock()
        self._deadline = 0.0

    def run(self) -> None:
        """All of it; what is wrong stands in ``findings``."""
        buckets = {"hoodie__bucket__index__num__buckets": "2"} if self.kind == "BUCKET" else {}
        self.table = make_table(self.uri, hoodie__index__type=self.kind, **buckets)
        if self.kind == "RECORD_INDEX":
            self.table.index_build()
        log = self.folder / "processes.log"
        actors = [self._writer] * self.writers + [self._keeper]
        processes = [Process(log) for _ in actors]
        for process in processes:
            process.send("history", self.uri)
        assert all(process.answer() for process in processes), "no process works"
        with ThreadPoolExecutor(len(actors)) as pool:
            self._deadline = time.monotonic() + self.seconds
            done = [pool.submit(act, n, processes[n], log) for n, act in enumerate(actors)]
            for one in done:
                one.result()
        self._judge(log)

    def _note(self, what: str, finding: str = "") -> None:
        with self._mutex:
            self.did[what] += 1
            if finding:
                self.findings.append(f"{what}: {finding}")

    def _writer(self, number: int, process: Process, log: Path) -> None:
        choose = random.Random(f"writer {self.seed} {number}")
        count = 0
        try:
            while time.monotonic() < self._deadline:
                batch = self.oracle.make(number, count, choose)
                process = self._sent(batch, process, log, choose)
                count += 1
        finally:
            process.close()

    def _sent(self, batch: Batch, process: Process, log: Path, choose: random.Random) -> Process:
        """Send a batch until it is in, or give it up after a conflict; the process to go on with."""
        undisturbed = True
        for _ in range(TRIES):
            before = process
            answer, process = self._suffer(process, log, choose, "upsert", self.uri, batch.path, *_named(batch))
            undisturbed = undisturbed and process is before
            if answer is None:
                continue  # killed: nobody knows, so the same batch is sent again
            if answer.code == 0:
                self.oracle.acknowledged(batch, str(answer.said["instant"]))
                return process
            self._note(f"exit {answer.code} {answer.kind}", "" if answer.code == CONFLICT else answer.text)
            if undisturbed and choose.random() < 0.3:
                return process  # it failed and is not tried again: it must not be in
        self._note("stuck", f"{batch.name} did not get in within {TRIES} tries")
        return process

    def _suffer(
        self, process: Process, log: Path, choose: random.Random, *command: object
    ) -> tuple[Answer | None, Process]:
        """Run a command to which something may happen; its answer if there is one, and the process to go on with."""
        fate, after = choose.random(), choose.uniform(0.0, 1.2)
        process.send(*command)
        if fate >= 0.3:
            answer = process.answer()
            assert answer is not None, f"no answer: {command}"
            self._note(str(command[0]))
            return answer, process
        answer = process.answer(after)
        if answer is not None:
            return answer, process
        if fate < 0.15:
            process.kill()
            self._note(f"{command[0]} killed")
            return None, Process(log)
        process.stop()
        self._note(f"{command[0]} frozen")
        if fate < 0.22:  # somebody starts the same anew meanwhile; the first one wakes up as a zombie
            with_twin = Process(log)
            answer = with_twin.run(*command)
            process.go_on()
            woken = process.answer()
            process.close()
            if woken is not None and woken.code not in (0, CONFLICT) and woken.kind not in _REFUSED:
                self._note("zombie", woken.text)
            return self._of_two(answer, woken), with_twin
        time.sleep(choose.uniform(*FROZEN))
        process.go_on()
        return process.answer(), process

    @staticmethod
    def _of_two(answer: Answer, woken: Answer | None) -> Answer:
        """What holds if one command ran twice: it is done if either says so, with the later instant."""
        done = [one for one in (answer, woken) if one is not None and one.code == 0]
        return max(done, key=lambda one: str(one.said.get("instant")), default=answer)

    def _keeper(self, _: int, process: Process, log: Path) -> None:
        choose = random.Random(f"keeper {self.seed}")
        try:
            while time.monotonic() < self._deadline:
                time.sleep(choose.uniform(0.2, 1.5))
                command = self._upkeep(choose)
                if command is not None:
                    process = self._kept(command, process, log, choose)
        finally:
            process.close()

    def _upkeep(self, choose: random.Random) -> Sequence[object] | None:
        kinds = ["rollback", "rollback", "clean", "archive", "maintain"]
        kinds += ["rescale", "rescale"] if self.kind == "BUCKET" else []
        kinds += ["migrate"] if self.kind in ("BLOOM", "SIMPLE") else []
        match choose.choice(kinds):
            case "rollback":
                newest = self.oracle.newest()
                return None if newest is None else ("rollback", self.uri, newest, *WRITE)
            case "clean":
                return "clean", self.uri, "--keep-commits", choose.randint(3, 6), *WRITE
            case "archive":
                kept = choose.randint(5, 9)
                keep = options(hoodie__cleaner__commits__retained=choose.randint(3, kept - 1))
                return "archive", self.uri, "--keep-commits", kept, *keep, *WRITE
            case "maintain":
                keep = options(hoodie__cleaner__commits__retained=4, hoodie__keep__min__commits=6)
                return "maintain", self.uri, *keep, *WRITE
            case "rescale":
                return "rescale", self.uri, "--buckets", choose.randint(1, 5), *WRITE
            case _:
                to = choose.choice(("BLOOM", "SIMPLE"))
                return "index", "migrate", self.uri, "--to", to, *WRITE

    def _kept(self, command: Sequence[object], process: Process, log: Path, choose: random.Random) -> Process:
        answer, process = self._suffer(process, log, choose, *command)
        if command[0] == "rollback":
            instant = str(command[2])
            for _ in range(TRIES):
                if answer is not None and answer.code != CONFLICT:
                    break
                answer, process = self._suffer(process, log, choose, *command)
            self._rolled_back(instant, answer, process)
        if answer is not None and answer.code not in (0, CONFLICT) and answer.kind not in _REFUSED:
            self._note(f"exit {answer.code} {answer.kind}", f"{command}: {answer.text}")
        return process

    def _rolled_back(self, instant: str, answer: Answer | None, process: Process) -> None:
        """What became of an instant that was to be rolled back. If the answer leaves it open, its batch is sent again."""
        if answer is not None and answer.code == 0:
            self.oracle.rolled_back(instant)
        batch = next(b for b in self.oracle.batches if b.instant == instant)
        for _ in range(TRIES):
            if answer is not None and answer.code == 0:
                return
            again = process.run("upsert", self.uri, batch.path, *_named(batch))
            if again.code == 0:
                self.oracle.acknowledged(batch, str(again.said["instant"]))
                return
        self._note("stuck", f"{batch.name}, whose rollback was left open, did not get in")

    def _judge(self, log: Path) -> None:
        """What is there at the end, by our reader, by another, and by ``lakeindex check``."""
        process = Process(log)
        try:
            # the archive step sweeps what a writer wrote that woke after others had rolled its instant back
            settled = process.run("maintain", self.uri, "--steps", "settle,archive", *WRITE)
            if settled.code:
                self._note("settle", settled.text)
            checked = process.run("check", self.uri)
            if checked.code:
                self._note("check", checked.text)
        finally:
            process.close()
        wanted = {(r.id, r.day, r.ts, r.v) for r in self.oracle.content().values()}
        self._compare("our reader", LakeTable(self.uri).read(meta=True), wanted)
        self._compare("hudi-rs", read_with_rust(self.uri, self.folder / "copy"), wanted)

    def _compare(self, who: str, rows: pa.Table, wanted: set[tuple[str, str, int, str]]) -> None:
        found = [tuple(row.values()) for row in rows.select(["id", "day", "ts", "v"]).to_pylist()]
        times = Counter(row[0] for row in found)
        if doubled := [key for key, count in times.items() if count > 1]:
            self._note(who, f"{len(doubled)} doubled keys: {sorted(doubled)[:5]}")
        lost, odd = wanted - set(found), set(found) - wanted
        if lost or odd:
            text = f"{len(lost)} rows are not there: {sorted(lost)[:5]}; {len(odd)} should not be: {sorted(odd)[:5]}"
            self._note(who, text)


def _named(batch: Batch) -> Sequence[str]:
    return ["--batch-id", batch.name, *WRITE]


def read_with_rust(uri: str, copy: Path) -> pa.Table:
    """The table through hudi-rs, which shares no code with us; of a store that is not local disk, a copy of it."""
    if "://" in uri:
        store = open_storage(uri)
        for one in store.list(""):
            place = copy / one.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(store.read(one.path))
        uri = str(copy)
    batches = HudiTableBuilder.from_base_uri(uri).build().read()
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
