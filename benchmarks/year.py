"""A year of a table in fast motion: ``python -m benchmarks.year [--workload year] [--dry]``.

Every day a batch of orders is upserted: new ones, changes of the last week's and of any older ones, and deletions.
Every week the table is maintained: a savepoint, clustering, clean, compaction, archiving. Months older than three go.
Twice a column is added, once the table is restored, and in the middle Hudi 1.2.0 writes a day, by which it upgrades the
table from version 6 to 9. Every week, and at the end, all rows are compared with what they must be, at the end by
Hudi, too. What is measured is how a day's upsert, the upkeep, reads and what lies on disk change over the year.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import lakeindex
from benchmarks import plots, report, timings
from benchmarks.measuring import commit, machine_line, now
from benchmarks.rows import Ints
from benchmarks.timings import grid, timed
from lakeindex.tasks.memory_bound import peak_resident_bytes

_T = TypeVar("_T")
ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "production.md"
BEGIN: Final = "<!-- results: made by python -m benchmarks.year -->"
_FIRST: Final = np.datetime64("2026-01-01")
_GONE: Final = -1
_STATES: Final = ("new", "paid", "packed", "shipped", "returned")
_MONTHS: Final = 3
WEEK: Final = 7
STEPS: Final = ["settle", "savepoint", "cluster", "clean", "metadata", "archive", "compact", "cache", "runs"]
METADATA: Final = ["files", "column_stats", "record_index"]
OPTIONS: Final = {
    "lakeindex.schema.mode": "add",
    "hoodie.parquet.max.file.size": str(4 << 20),
    "hoodie.parquet.small.file.limit": "0",  # a day's new rows are files of their own, which clustering puts together
    "hoodie.clustering.plan.strategy.small.file.limit": str(2 << 20),
    "lakeindex.maintain.savepoints": "2",
}
HUDI: Final = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "month",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.parquet.compression.codec": "zstd",
    "hoodie.upsert.shuffle.parallelism": "2",
}


@dataclass(frozen=True, slots=True)
class Year:
    """What happens when; days are counted from 0.

    Attributes:
        new: rows that each day brings; two thirds as many are changed, and one in forty deleted.
        grown: days from which on the batches have a column more.
        restored: the day whose batch was wrong; the table is restored to the week's savepoint, and the week sent again.
        upgraded: the day that Hudi writes; None: without Hudi.
    """

    days: int
    new: int
    grown: tuple[int, int]
    restored: int
    upgraded: int | None


WORKLOADS: Final = {
    "year": Year(365, 2_400, (75, 250), 298, 182),
    "T_days": Year(20, 60, (4, 15), 16, None),
    "T_hudi": Year(20, 60, (4, 15), 16, 10),
}


@dataclass
class Day:
    """What a day took, and what there was at its end.

    Attributes:
        took: seconds, and seconds of CPU, by what was done: ``upsert`` (but when Hudi wrote); every week ``upkeep``, a
            ``read`` of all rows, and ``get``, of twenty by key.
        requests: of the upsert to the storage.
        rows: live ones.
        files: live base files.
        objects: files below the table's folder.
        own: of them, those below ``.hoodie``.
        beside: files in the folder of runs beside the table.
        peak_bytes: most resident memory of the process so far.
    """

    number: int
    took: dict[str, tuple[float, float]] = field(default_factory=dict)
    requests: int = 0
    rows: int = 0
    files: int = 0
    objects: int = 0
    own: int = 0
    beside: int = 0
    bytes: int = 0
    own_bytes: int = 0
    peak_bytes: int = 0
    event: str = ""

    def timed(self, name: str, step: Callable[[], _T]) -> _T:
        """What a step gives; what it took is noted."""
        found: list[_T] = []
        used = timed(lambda: found.append(step()))
        self.took[name] = round(used.seconds, 4), round(used.cpu_seconds, 2)
        return found[0]


@dataclass
class Played:
    """A year that was played, as it is saved.

    Attributes:
        compared: rows that were compared with what they must be.
    """

    name: str
    machine: str
    started: str
    commit: str
    days: list[Day] = field(default_factory=list)
    compared: int = 0


def _mixed(numbers: Ints) -> np.ndarray:
    """Numbers that look drawn (splitmix64)."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)))


def _texts(numbers: Ints) -> pa.Array:
    text = _mixed(numbers).astype(">u8").tobytes().hex()
    return pa.array([text[at : at + 16] for at in range(0, len(text), 16)])


def month_of(days: Ints) -> np.ndarray:
    return np.asarray((_FIRST + days.astype("timedelta64[D]")).astype("datetime64[M]").astype(str))


def rows_of(year: Year, numbers: Ints, written: Ints, columns: int = 2) -> pa.Table:
    """Orders, as the batches of the days ``written`` had them; a function of both.

    Args:
        columns: how many of the added columns there are.
    """
    mixed = _mixed(numbers * 1009 + written)
    rows: dict[str, Any] = {
        "number": pa.array(numbers),
        "id": _texts(numbers),
        "month": pa.array(month_of(numbers // year.new)),
        "ts": pa.array(written * 86_400_000),
        "amount": pa.array((mixed % np.uint64(1_000_000)).astype(np.float64) / 100),
        "status": pa.array(_STATES).take(pa.array((mixed % np.uint64(5)).astype(np.int64))),
        "note": _texts(numbers * 1013 + written),
    }
    added = {
        "discount": pa.array((mixed % np.uint64(50)).astype(np.float64) / 100),
        "lines": pa.array((mixed % np.uint64(9)).astype(np.int32)),
    }
    for (name, values), since in list(zip(added.items(), year.grown, strict=True))[:columns]:
        rows[name] = pc.if_else(pa.array(written >= since), values, pa.scalar(None, values.type))
    return pa.table(rows)


class Orders:
    """What the table must hold: the day on which each order was written last, by its number."""

    def __init__(self, year: Year) -> None:
        self.year = year
        self.written = np.full(year.days * year.new, _GONE, np.int64)

    def columns(self, day: int) -> int:
        return sum(day >= since for since in self.year.grown)

    def live(self) -> Ints:
        return np.flatnonzero(self.written != _GONE)

    def batch(self, day: int) -> pa.Table:
        """The day's batch; the table must hold its rows from now on."""
        year, rng, live = self.year, np.random.default_rng(day), self.live()
        new = np.arange(day * year.new, (day + 1) * year.new)
        recent = live[live >= (day - WEEK) * year.new]
        changed = [rng.choice(some, min(len(some), year.new // part)) for some, part in ((recent, 2), (live, 6))]
        updates = np.unique(np.concatenate(changed))
        gone = rng.choice(updates, min(len(updates), year.new // 40), replace=False) if len(updates) else updates
        numbers = np.concatenate([new, updates])
        rng.shuffle(numbers)
        deleted = np.isin(numbers, gone)
        self.written[numbers] = np.where(deleted, _GONE, day)
        batch = rows_of(year, numbers, np.full(len(numbers), day), self.columns(day))
        return batch.append_column("_hoodie_is_deleted", pa.array(deleted))

    def drop(self, month: str) -> bool:
        """A month goes; whether it was there."""
        live = self.live()
        gone = live[month_of(live // self.year.new) == month]
        self.written[gone] = _GONE
        return bool(len(gone))

    def compare(self, found: pa.Table, day: int, what: str) -> int:
        """How many rows there are.

        Raises:
            RuntimeError: it is not exactly what it must be.
        """
        live = self.live()
        wanted = rows_of(self.year, live, self.written[live], self.columns(day))
        if set(wanted.column_names) - set(found.column_names):
            raise RuntimeError(f"day {day}, {what}: columns {found.column_names}")
        seen = found.select(wanted.column_names).sort_by("number").cast(wanted.schema).combine_chunks()
        if not seen.equals(wanted):
            differs = [name for name in wanted.column_names if not seen[name].equals(wanted[name])]
            raise RuntimeError(f"day {day}, {what}: {seen.num_rows:,} rows instead of {len(live):,}, other {differs}")
        return len(live)


class _Play:
    """One table through one year."""

    def __init__(self, year: Year, uri: Path, upgrade: Callable[[Path, pa.Table], None]) -> None:
        self.year, self.uri, self.upgrade = year, uri, upgrade
        self.orders = Orders(year)
        self.kept, self.kept_on = self.orders.written.copy(), 0
        self.savepoint = ""
        self.sent: list[tuple[int, pa.Table]] = []
        self.compared = 0
        like = rows_of(year, np.array([0]), np.array([0]), 0)
        made = lakeindex.create_table(
            str(uri), like=like, key="id", partition="month", ordering="ts", index="RECORD_INDEX", table_version=6
        )
        made.metadata_build(METADATA)

    def table(self) -> lakeindex.LakeTable:
        return lakeindex.open_table(str(self.uri))

    def day(self, number: int) -> Day:
        done = Day(number)
        batch = self.orders.batch(number)
        if number == self.year.upgraded:
            self.upgrade(self.uri, batch)
            done.event = "Hudi upgrades 6 to 9"
        else:
            summary = done.timed("upsert", lambda: self._send(number, batch))
            done.requests = sum(stage.requests for stage in summary.stages)
        self.sent.append((number, batch))
        if number in self.year.grown:
            done.event = "a column more"
        if number == self.year.restored:
            self._restore(number)
            done.event = "restore"
        self._drop_old(number)
        if number % WEEK == WEEK - 1 or number == self.year.days - 1:
            self._week(done)
        self._look(done)
        return done

    def _send(self, number: int, batch: pa.Table) -> Any:
        summary = self.table().upsert(batch, batch_id=f"day-{number}", options=OPTIONS, progress=False)
        if summary.noop or summary.quarantined:
            raise RuntimeError(f"day {number}: {summary}")
        return summary

    def _drop_old(self, number: int) -> None:
        """On the first of a month the one before the last three goes."""
        day = _FIRST + np.timedelta64(number, "D")
        old = str(day.astype("datetime64[M]") - np.timedelta64(_MONTHS + 1, "M"))
        if day == day.astype("datetime64[M]") and self.orders.drop(old):
            self.table().delete_partitions([old], options=OPTIONS)

    def _restore(self, number: int) -> None:
        """A batch was wrong: the table goes back to the week's savepoint, and what was right since is sent again."""
        table, right = self.table(), self.orders.written
        live = self.orders.live()[::3]
        wrong = rows_of(self.year, live, np.full(len(live), number + 1), self.orders.columns(number))
        table.upsert(wrong, batch_id="wrong", options=OPTIONS, progress=False)
        table.restore(self.savepoint, options=OPTIONS)
        self.orders.written = self.kept
        self.orders.compare(table.read(meta=False), self.kept_on, "after the restore")
        for day, batch in self.sent:
            self._send(day, batch)
        self.orders.written = right

    def _week(self, done: Day) -> None:
        done.timed("upkeep", lambda: self.table().maintain(STEPS, options=OPTIONS))
        self.savepoint = self.table().savepoint_list().savepoints[-1].instant
        self.kept, self.kept_on, self.sent = self.orders.written.copy(), done.number, []
        rows = done.timed("read", lambda: self.table().read(meta=False))
        self.compared += self.orders.compare(rows, done.number, "we read")
        live = self.orders.live()
        keys = _texts(np.random.default_rng(done.number).choice(live, min(20, len(live)), replace=False)).to_pylist()
        found = done.timed("get", lambda: self.table().get(keys, progress=False)).rows
        if sorted(found["id"].to_pylist()) != sorted(keys):
            raise RuntimeError(f"day {done.number}: by key came {found.num_rows} rows of {len(keys)}")

    def _look(self, done: Day) -> None:
        """What lies there."""
        files = [one for one in self.uri.rglob("*") if one.is_file()]
        own = [one for one in files if ".hoodie" in one.relative_to(self.uri).parts]
        done.objects, done.own = len(files), len(own)
        done.bytes, done.own_bytes = (sum(one.stat().st_size for one in some) for some in (files, own))
        beside = self.uri.with_name(self.uri.name + ".lakeindex")
        done.beside = sum(one.is_file() for one in beside.rglob("*"))
        done.files = len(self.table().files())
        done.rows = len(self.orders.live())
        done.peak_bytes = peak_resident_bytes()


@contextmanager
def _hudi(folder: Path, *, wanted: bool) -> Iterator[Any]:
    """Hudi 1.2.0, which starts when it is asked; None if nobody will."""
    if not wanted:
        yield None
        return
    from scripts import interop_env
    from tests.interop.hudi_client import HudiServer

    interop_env.make()
    with closing(HudiServer("1.2.0", folder / "hudi", "3g")) as server:
        yield server


def play(name: str) -> Played:
    """Play a year in a folder that goes away.

    Raises:
        RuntimeError: the table does not hold what it must.
    """
    year, played = WORKLOADS[name], Played(name, machine_line(), now(), commit())
    with (
        tempfile.TemporaryDirectory(prefix="year-") as folder,
        _hudi(Path(folder), wanted=year.upgraded is not None) as hudi,
    ):
        uri = Path(folder) / "orders"

        def upgrade(path: Path, batch: pa.Table) -> None:
            hudi.write(path, batch, HUDI | {"hoodie.table.name": path.name})
            version = lakeindex.open_table(str(path)).properties["hoodie.table.version"]
            if version != "9":
                raise RuntimeError(f"Hudi left the table at version {version}")

        table = _Play(year, uri, upgrade)
        for number in range(year.days):
            played.days.append(table.day(number))
            print(f"  {_line(played.days[-1])}", flush=True)
        played.compared = table.compared
        verified = table.table().metadata_verify()
        if not verified.ok:
            raise RuntimeError(f"at the end: {verified}")
        violations = table.table().check().violations
        if violations:
            raise RuntimeError(f"at the end: {violations[0]}")
        if hudi is not None:
            played.compared += table.orders.compare(hudi.read(uri), year.days, "Hudi reads")
    return played


def _line(day: Day) -> str:
    took = ", ".join(f"{name} {seconds:.2f} s (CPU {cpu:.2f})" for name, (seconds, cpu) in day.took.items())
    return (
        f"{day.number:3} {took or 'by Hudi'}: {day.requests} requests, {day.rows:,} rows, {day.files} files, "
        f"{day.objects} objects ({day.own} in .hoodie, {day.beside} beside), {day.bytes / 1e6:.1f} MB "
        f"({day.own_bytes / 1e6:.1f} in .hoodie), {day.peak_bytes >> 20} MB of memory {day.event}"
    )


def save(played: Played, folder: Path = timings.RESULTS) -> None:
    """The raw figures."""
    (folder / f"{played.name}.json").write_text(json.dumps(asdict(played)) + "\n")


def load(name: str, folder: Path = timings.RESULTS) -> Played:
    facts = json.loads((folder / f"{name}.json").read_text())
    return Played(**{**facts, "days": [Day(**day) for day in facts["days"]]})


_FACTS: Final[dict[str, Callable[[Day], float]]] = {
    "requests": lambda day: day.requests,
    "rows": lambda day: day.rows,
    "base files": lambda day: day.files,
    "files": lambda day: day.objects,
    "in `.hoodie`": lambda day: day.own,
    "of runs": lambda day: day.beside,
    "MB": lambda day: day.bytes / 1e6,
    "in `.hoodie` ": lambda day: day.own_bytes / 1e6,
}
QUARTER: Final = 91


def table(played: Played) -> str:
    """Medians by quarter as Markdown, and the last one beside the second: in the first the table is filled."""
    steps = list(dict.fromkeys(name for day in played.days for name in day.took))
    quarters = [played.days[at : at + QUARTER] for at in range(0, len(played.days), QUARTER)]
    quarters = [some for some in quarters if len(some) > QUARTER // 2] or [played.days]
    rows = [_medians(steps, some) for some in quarters]
    said = [[f"{number}", *(_shown(value) for value in row)] for number, row in enumerate(rows, 1)]
    if len(rows) > 2:
        beside = (last / second for last, second in zip(rows[-1], rows[1], strict=True))
        said.append([f"{len(rows)} / 2", *(f"{ratio:.2f}" for ratio in beside)])
    head = ["quarter", *(f"{name} CPU s" for name in steps), *_FACTS]
    about = (
        f"Medians. {played.compared:,} rows were compared. {played.machine}. {played.started}, commit {played.commit}."
    )
    return f"{grid(head, said)}\n\n{about}"


def _medians(steps: Sequence[str], days: Sequence[Day]) -> list[float]:
    took = [[day.took[name][1] for day in days if name in day.took] for name in steps]
    others = [[one(day) for day in days] for one in _FACTS.values()]
    return [statistics.median(values) for values in (*took, *others)]


def _shown(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def update(played: Played, page: Path = PAGE) -> None:
    """The plot and the table of docs/production.md."""
    plots.year(played.days, page.parent / "images" / "production_year.svg")
    picture = "![a table through a year](images/production_year.svg)"
    report.update_page([picture, table(played)], page, BEGIN)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.year", description="a table through a year")
    parser.add_argument("--workload", choices=WORKLOADS, default="year")
    parser.add_argument("--dry", action="store_true", help="print the table, change neither results nor pages")
    parser.add_argument("--page", action="store_true", help="the page from the saved result")
    given = parser.parse_args(arguments)
    played = load(given.workload) if given.page else play(given.workload)
    print("\n" + table(played), flush=True)
    if not given.dry:
        if not given.page:
            save(played)
        update(played)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
