"""Draw the pictures of docs/how-it-works.md from what the library does with the demo's flights;
``--check`` only compares.

Two tables hold the same rows of November 2013, loaded in the same six batches of five days: in one the keys begin with
the time, in the other they are hashes. A batch of 48 flights of the last six days, a quarter of them new, is looked up
in both, with the library's own footers, ranges and filters. The funnel is that of the tutorial's run.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT)]

from demo.feed import SCHEMA, load_flights, write_feed  # noqa: E402 - the checkout's demo
from lakeindex.api.table import LakeTable  # noqa: E402 - the checkout's library, here and below
from lakeindex.bloom import filter_candidates, usable_filter  # noqa: E402 - as above
from lakeindex.bloom.filter import (  # noqa: E402 - as above
    BloomFilter,
    FilterSize,
    build_sized,
)
from lakeindex.files.footers import read_footer  # noqa: E402 - as above
from lakeindex.hashing.arrow import string_buffers  # noqa: E402 - as above
from lakeindex.index.key_ranges import KeyRange, prune  # noqa: E402 - as above
from lakeindex.operations.create_table import create_like  # noqa: E402 - as above
from lakeindex.options.types import CreateConfig, FilterType  # noqa: E402 - as above
from lakeindex.run.summary import RunSummary  # noqa: E402 - as above
from lakeindex.storage import open_storage  # noqa: E402 - as above
from lakeindex.table.handle import Table  # noqa: E402 - as above

IMAGES: Final = ROOT / "docs" / "images"
WIDTH: Final = 480
MONTH: Final = "2013-11"
LOADS: Final = 6
BATCH: Final = 48
NEW_ONE_IN: Final = 4
FLIGHTS_SIZES: Final = {
    "hoodie.parquet.max.file.size": "250000",
    "hoodie.parquet.small.file.limit": "100000",
    "lakeindex.parquet.row.group.rows": "1000",
}
"""The sizes of conf/tables/flights.yaml and of the tutorial."""

STYLE: Final = """
.paper { fill: #ffffff } text { fill: #1f2328; font: 14px system-ui, sans-serif } .small { font-size: 12px }
.soft { fill: #59636e } .off { fill: #d8dee4 } .range { fill: #8c959f } .hit { fill: #0f8a7e } .miss { fill: #d4701e }
@media (prefers-color-scheme: dark) {
.paper { fill: #1b1f27 } text { fill: #e6edf3 } .soft { fill: #9da7b3 } .off { fill: #333b46 } .range { fill: #768390 }
.hit { fill: #2bb8a8 } .miss { fill: #e8894a }
}
"""

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A batch looked up in one table.

    Attributes:
        ends: of each file, the share of all keys that lie before its least and up to its greatest one, 0 to 1.
        asked: the same of each key of the batch.
        in_range: bool [files, keys], left by key ranges.
        in_filter: bool [files, keys], left by filters of those.
        there: bool [files, keys], the file holds the key.
    """

    title: str
    ends: tuple[tuple[float, float], ...]
    asked: tuple[float, ...]
    in_range: Bits
    in_filter: Bits
    there: Bits


class Picture:
    """An SVG that follows the reader's light or dark setting and brings its own background.

    Args:
        title: what is shown, for those who do not see it.
    """

    def __init__(self, height: float, title: str) -> None:
        box = f"0 0 {WIDTH} {height:g}"
        self.root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img", width=str(WIDTH))
        ET.SubElement(self.root, "title").text = title
        ET.SubElement(self.root, "style").text = STYLE
        self.rect(0, 0, WIDTH, height, "paper")

    def rect(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        numbers = {"x": f"{x:.2f}", "y": f"{y:.2f}", "width": f"{width:.2f}", "height": f"{height:.2f}"}
        ET.SubElement(self.root, "rect", {**numbers, "class": kind})

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text; ``y`` is its base line."""
        given = {"x": f"{x:.2f}", "y": f"{y:.2f}", "text-anchor": anchor, **({"class": kind} if kind else {})}
        ET.SubElement(self.root, "text", given).text = words

    def legend(self, y: float, entries: Sequence[tuple[str, str]]) -> None:
        """Squares with what they mean, a line each."""
        for line, (kind, words) in enumerate(entries):
            self.rect(14, y + 20 * line, 11, 11, kind)
            self.text(32, y + 20 * line + 10, words, "small")

    def to_text(self) -> str:
        ET.indent(self.root, space="")
        return ET.tostring(self.root, encoding="unicode") + "\n"


def flights_of_november() -> pa.Table:
    """The month's flights with both kinds of key, in the order of their departure."""
    flights = load_flights()
    rows = flights.filter(pc.equal(flights["month"], MONTH)).sort_by(
        [("time_hour", "ascending"), ("carrier", "ascending")]
    )
    parts = zip(rows["time_hour"].to_pylist(), rows["carrier"].to_pylist(), rows["flight"].to_pylist(), strict=True)
    growing = [f"{hour[:13]} {carrier}{flight}" for hour, carrier, flight in parts]
    random = [mmh3.hash_bytes(key).hex() for key in growing]
    return rows.select(["month", "day", "dest"]).append_column("growing", [growing]).append_column("random", [random])


def looked_up(folder: Path, rows: pa.Table, kind: str, title: str) -> LookedUp:
    """Load a table by five days at a time, and look the batch up in its files."""
    day = pc.day(rows["day"]).to_numpy()
    late = np.flatnonzero(day > 30 - LOADS)
    batch = late[:: len(late) // BATCH][:BATCH]
    is_loaded = np.ones(len(rows), np.bool_)
    is_loaded[batch[1::NEW_ONE_IN]] = False
    columns = rows.select([kind, "month", "dest"])
    pq.write_table(columns.slice(0, 0), folder / f"{kind}.parquet")
    uri = str(folder / kind)
    like, config = str(folder / f"{kind}.parquet"), CreateConfig()
    create_like(uri, like, keys=(kind,), partitions=("month",), ordering=(), config=config)
    table = LakeTable(uri)
    for load in range(LOADS):
        part = is_loaded & ((day - 1) // 5 == load)
        table.upsert(columns.filter(pa.array(part)), options={"hoodie.parquet.small.file.limit": "0"})
    keys = pa.array(sorted(columns[kind].take(pa.array(batch)).to_pylist()), pa.large_string())
    stored = np.array(sorted(columns[kind].filter(pa.array(is_loaded)).to_pylist()))
    return _look_up(uri, title, keys, stored)


def _look_up(uri: str, title: str, keys: pa.Array, stored: npt.NDArray[np.str_]) -> LookedUp:
    storage = open_storage(uri)
    files = sorted(Table.open(storage).snapshot().base_files_all(), key=lambda file: file.instant_time)
    footers = [read_footer(storage, file) for file in files]
    slices = prune(keys, [KeyRange(footer.min_key, footer.max_key) for footer in footers])
    shape = (len(files), len(keys))
    in_range, in_filter, there = (np.zeros(shape, np.bool_) for _ in range(3))
    for row, (file, footer) in enumerate(zip(files, footers, strict=True)):
        start, stop = int(slices.from_row[row]), int(slices.to_row[row])
        in_range[row, start:stop] = True
        found = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
        in_filter[row, filter_candidates(found, string_buffers(keys), start, stop)] = True
        held = set(pq.read_table(Path(uri) / file.path, columns=["_hoodie_record_key"])[0].to_pylist())
        there[row] = [key in held for key in keys.to_pylist()]

    def share(key: str | None, side: str) -> float:
        return float(np.searchsorted(stored, str(key), side)) / len(stored)  # type: ignore[call-overload] # a side is left or right

    ends = tuple((share(footer.min_key, "left"), share(footer.max_key, "right")) for footer in footers)
    return LookedUp(title, ends, tuple(share(key, "left") for key in keys.to_pylist()), in_range, in_filter, there)


def ranges_picture(tables: Sequence[LookedUp]) -> str:
    """Key ranges of the files as bars, keys of the batch as ticks below."""
    panel = 34 + 20 * LOADS + 46
    picture = Picture(panel * len(tables) + 48, "Key ranges of six files, with keys that grow and with random keys")
    for number, table in enumerate(tables):
        top = panel * number + 10
        picture.text(14, top + 14, table.title)
        for row, (low, high) in enumerate(table.ends):
            y = top + 28 + 20 * row
            kind = "hit" if table.in_range[row].any() else "range"
            picture.text(14, y + 11, f"file {row + 1}", "small")
            picture.rect(62, y, WIDTH - 76, 13, "off")
            picture.rect(62 + low * (WIDTH - 76), y, (high - low) * (WIDTH - 76), 13, kind)
        y = top + 30 + 20 * LOADS
        picture.text(14, y + 10, "batch", "small")
        for place in table.asked:
            picture.rect(62 + place * (WIDTH - 76), y, 1.4, 12, "miss")
        picture.text(62, y + 27, "all keys of the table, in order →", "small soft")
    entries = [
        ("hit", "key range of a file that a key of the batch falls into"),
        ("range", "key range of a file that is left alone"),
    ]
    picture.legend(panel * len(tables) + 6, entries)
    return picture.to_text()


def pairs_picture(tables: Sequence[LookedUp]) -> str:
    """What becomes of each pair of a key of the batch and a file."""
    cell, panel = (WIDTH - 76) / BATCH, 30 + 15 * LOADS + 40
    picture = Picture(panel * len(tables) + 70, "What becomes of every pair of a key and a file")
    for number, table in enumerate(tables):
        top = panel * number + 10
        picture.text(14, top + 14, table.title)
        for row in range(LOADS):
            y = top + 26 + 15 * row
            picture.text(14, y + 10, f"file {row + 1}", "small")
            for column in range(BATCH):
                x = 62 + cell * column
                picture.rect(x, y, cell - 1.2, 13, _fate(table, row, column))
        counts = [BATCH * LOADS, *(int(bits.sum()) for bits in (table.in_range, table.in_filter, table.there))]
        words = f"{counts[0]} pairs, {counts[1]} left by key ranges, {counts[2]} left by filters, {counts[3]} found"
        picture.text(62, top + 26 + 15 * LOADS + 16, words, "small")
    picture.legend(
        panel * len(tables) + 4,
        [
            ("off", "outside the file's key range"),
            ("miss", "inside, but the filter says no"),
            ("hit", "the filter says maybe, and it is there"),
        ],
    )
    return picture.to_text()


def _fate(table: LookedUp, row: int, column: int) -> str:
    if not table.in_range[row, column]:
        return "off"
    if not table.in_filter[row, column]:
        return "miss"
    return "hit" if table.there[row, column] else "range"


def filter_picture(keys: Sequence[str]) -> str:
    """The bits of a small filter, with those that two keys ask for."""
    size = FilterSize(FilterType.SIMPLE, 10, 10, 0.01)
    held = list(keys[:8])
    whole = build_sized(pa.array(held, pa.large_string()), size)
    absent = next(key for key in keys[8:] if not whole.probe(pa.array([key], pa.large_string()))[0])
    height = 30 + 2 * 154 + 74
    picture = Picture(height, "A filter of 96 bits that holds eight keys, asked for two")
    picture.text(14, 24, f"{size.bits} bits, {size.hashes} hashes a key, 8 keys in it")
    for number, (key, says) in enumerate(
        [(held[2], "all its bits are set: maybe"), (absent, "a bit is not set: certainly not")]
    ):
        top = 40 + 154 * number
        picture.text(14, top + 14, f"“{key}”")
        picture.text(14, top + 32, says, "soft")
        _draw_bits(picture, top + 42, whole, _set_bits(build_sized(pa.array([key], pa.large_string()), size)))
    entries = [
        ("range", "bit that is set"),
        ("off", "bit that is not set"),
        ("hit", "asked for, and set"),
        ("miss", "asked for, and not set"),
    ]
    picture.legend(height - 82, entries)
    return picture.to_text()


def _draw_bits(picture: Picture, top: float, whole: BloomFilter, asked: Bits) -> None:
    held = _set_bits(whole)
    step = (WIDTH - 28) / 24
    for bit in range(whole.m):
        x, y = 14 + step * (bit % 24), top + step * (bit // 24)
        kinds = ("hit", "miss") if asked[bit] else ("range", "off")
        picture.rect(x, y, step - 3, step - 3, kinds[0] if held[bit] else kinds[1])


def _set_bits(bloom: BloomFilter) -> Bits:
    return np.unpackbits(bloom.bits[0], bitorder="little")[: bloom.m].astype(np.bool_)


def funnel_picture(summary: RunSummary) -> str:
    """Rows and pairs of the tutorial's run, stage by stage."""
    stages = {stage.name: stage for stage in summary.stages}
    staged, lookup = stages["stage_input"], stages["index_lookup"]
    bars = [
        ("stage_input", f"{summary.rows_in:,} rows, {staged.rows_out:,} keys", staged.rows_out, "range"),
        ("", f"{lookup.pairs_in:,} pairs of a key and a file of its partition", lookup.pairs_in, "range"),
        ("index_lookup", f"{lookup.pairs_out:,} left by key ranges", lookup.pairs_out, "hit"),
        ("bloom_check", f"{stages['bloom_check'].pairs_out:,} left by filters", stages["bloom_check"].pairs_out, "hit"),
        (
            "verify_keys",
            f"{stages['verify_keys'].pairs_out:,} found in the files",
            stages["verify_keys"].pairs_out,
            "hit",
        ),
        ("merge_write", _written(summary), summary.inserts + summary.updates + summary.deletes, "miss"),
    ]
    picture = Picture(44 * len(bars) + 16, "The funnel of the tutorial's run")
    most = max(count for _, _, count, _ in bars)
    for row, (name, words, count, kind) in enumerate(bars):
        y = 44 * row + 12
        picture.text(14, y + 25, name)
        picture.text(112, y + 11, words, "small soft")
        picture.rect(112, y + 16, WIDTH - 126, 13, "off")
        picture.rect(112, y + 16, (WIDTH - 126) * count / most, 13, kind)
    return picture.to_text()


def _written(summary: RunSummary) -> str:
    fates = f"{summary.inserts:,} inserts, {summary.updates:,} updates, {summary.deletes:,} deletes"
    return f"{fates}: {summary.files_created + summary.files_rewritten} files written"


def tutorial_run(folder: Path) -> RunSummary:
    """The tutorial's second batch: a day into two months of flights."""
    feed = folder / "feed"
    write_feed(feed)
    uri = str(folder / "flights")
    pq.write_table(SCHEMA.empty_table(), folder / "like.parquet")
    key, config = ("time_hour", "carrier", "flight"), CreateConfig()
    create_like(
        uri, str(folder / "like.parquet"), keys=key, partitions=("month",), ordering=("event_ms",), config=config
    )
    table = LakeTable(uri)
    table.upsert([feed / "base/2013-10.parquet", feed / "base/2013-11.parquet"], options=FLIGHTS_SIZES)
    return table.upsert(feed / "2013-12-01.parquet", options=FLIGHTS_SIZES)


def pictures(folder: Path) -> Iterator[tuple[str, str]]:
    rows = flights_of_november()
    tables = [
        looked_up(folder, rows, "growing", "keys that grow with time"),
        looked_up(folder, rows, "random", "random keys, same rows, same six loads"),
    ]
    yield "how_ranges.svg", ranges_picture(tables)
    yield "how_pairs.svg", pairs_picture(tables)
    yield "how_filter.svg", filter_picture(rows["growing"].slice(0, 20).to_pylist())
    yield "how_funnel.svg", funnel_picture(tutorial_run(folder))


def main() -> int:
    """Write the pictures, or compare them with those that are there; 1 if one differs."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = dict(pictures(Path(folder)))
    stale = [
        name for name, text in fresh.items() if not (IMAGES / name).is_file() or (IMAGES / name).read_text() != text
    ]
    if "--check" in sys.argv:
        print("differ:", *stale) if stale else print("as the library has it")
        return int(bool(stale))
    for name in stale:
        (IMAGES / name).write_text(fresh[name])
        print(IMAGES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
