"""Results on disk, and the tables in ``README.md`` that are made from them."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks import timings
from benchmarks.timings import Timing, grid
from benchmarks.workloads import names

README: Final = Path(__file__).resolve().with_name("README.md")
BEGIN: Final = "<!-- results: made by make bench -->"
END: Final = "<!-- end of results -->"
#: What ratios are taken of.
REFERENCES: Final = ("floor", "delta-rs")


@dataclass
class PeerResult(Timing):
    """All upserts of one peer on one workload.

    Attributes:
        compression: codec and level of what it writes; None in results from before it was the same for all.
        correct: whether row count, distinct keys and both sums were right after every run.
    """

    correct: bool = False
    load_seconds: float = 0.0
    base_files: int = 0
    data_files: int = 0
    data_bytes: int = 0
    other_bytes: int = 0
    compression: str | None = None


@dataclass
class WorkloadResult:
    """All peers on one workload, in one run."""

    workload: str
    base_rows: int
    batch_rows: int
    touched_files: int
    machine: str
    started: str
    commit: str
    peers: list[PeerResult] = field(default_factory=list)

    @property
    def base_files(self) -> int:
        return next((peer.base_files for peer in self.peers if peer.base_files), 0)


def save(result: WorkloadResult) -> Path:
    """The raw figures, one file a workload; the newest run replaces the one before."""
    timings.RESULTS.mkdir(exist_ok=True)
    path = timings.RESULTS / f"{result.workload}.json"
    path.write_text(json.dumps(asdict(result), indent=1) + "\n")
    return path


def load_all() -> list[WorkloadResult]:
    paths = [timings.RESULTS / f"{name}.json" for name in names()]
    return [_parse(json.loads(path.read_text())) for path in paths if path.exists()]


def _parse(facts: dict[str, Any]) -> WorkloadResult:
    peers = [PeerResult(**{"workload": facts["workload"], **peer}) for peer in facts.pop("peers")]
    return WorkloadResult(**facts, peers=peers)


def _cells(peer: PeerResult, references: list[PeerResult | None]) -> list[str]:
    if peer.failed is not None:
        return [peer.title, "failed", *[""] * 7]
    return [
        peer.title,
        *peer.cells,
        *(f"{peer.median / one.median:.2f}" if one is not None else "" for one in references),
        f"{statistics.median(peer.cpu_seconds):.1f}",
        f"{peer.peak_bytes / 2**20:.0f}",
        f"{peer.data_files} / {(peer.data_bytes + peer.other_bytes) / 1e6:.1f}",
        "yes" if peer.correct else "**NO**",
    ]


def table(result: WorkloadResult) -> str:
    """One workload as Markdown: medians, spread, and ratios to the peers of ``REFERENCES``."""
    good = {peer.peer: peer for peer in result.peers if peer.failed is None}
    references = [good.get(name) for name in REFERENCES]
    runs = max((len(peer.seconds) for peer in result.peers), default=0)
    head = (
        f"**{result.workload}**: {result.batch_rows:,} rows into {result.base_rows:,} ({result.touched_files} of "
        f"{result.base_files} files hold updated keys), {runs} runs each after one that does not count. "
        f"{result.machine}. {result.started}, commit {result.commit}."
    )
    columns = [
        "engine",
        "median s",
        "spread s",
        "x floor",
        "x delta-rs",
        "CPU s",
        "peak MB",
        "files / MB written",
        "right",
    ]
    return (
        head + _compressions(result.peers) + "\n\n" + grid(columns, (_cells(one, references) for one in result.peers))
    )


def _compressions(peers: list[PeerResult]) -> str:
    """What each peer compressed with, as far as its result says so."""
    said = sorted({peer.compression for peer in peers if peer.compression is not None})
    if len(said) == 1 and all(peer.compression is not None for peer in peers):
        return f" All wrote {said[0]}."
    by_what: dict[str, list[str]] = {}
    for peer in peers:
        by_what.setdefault(peer.compression or "not recorded", []).append(peer.title)
    told = [f"{what}: {', '.join(titles)}" for what, titles in by_what.items()]
    return f" Compression: {'; '.join(told)}." if said else ""


def update_page(sections: list[str], page: Path | None = None, begin_mark: str = BEGIN) -> None:
    """Put the sections between the markers of a page, of the README if none is named.

    Raises:
        ValueError: the markers are not there.
    """
    page = page or README
    text = page.read_text()
    before, begin, rest = text.partition(begin_mark)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no lines {begin_mark!r} and {END!r}")
    page.write_text(before + begin_mark + "\n\n" + "\n\n".join(sections) + "\n\n" + END + after)
