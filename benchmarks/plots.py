"""The pictures of the pages: the same figures give the same file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.report import PeerResult, WorkloadResult
from benchmarks.timings import Timing

if TYPE_CHECKING:
    from benchmarks.year import Day

_OURS: Final = "#1f6fb4"
_THEIRS: Final = "#9aa5b1"
_FLOOR: Final = "#d98c2b"


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lakeindex"
    from matplotlib import pyplot as plt

    return plt


def _save(plt: Any, figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    # matplotlib ends lines with blanks, which git complains of
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _color(peer: str) -> str:
    return _OURS if peer.startswith("lakeindex") else _FLOOR if peer == "floor" else _THEIRS


def _bars(results: Sequence[WorkloadResult], label: str, value: Callable[[PeerResult], float], path: Path) -> None:
    plt = _pyplot()
    shown = [(result, [p for p in result.peers if p.failed is None and p.seconds]) for result in results]
    shown = [(result, peers) for result, peers in shown if peers]
    heights = [0.6 + 0.27 * len(peers) for _, peers in shown]
    figure, panels = plt.subplots(
        len(shown), 1, figsize=(8, sum(heights) + 0.3), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for panel, (result, peers) in zip(panels[:, 0], shown, strict=True):
        values = [value(peer) for peer in peers]
        bars = panel.barh([peer.peer for peer in peers], values, color=[_color(peer.peer) for peer in peers])
        panel.bar_label(bars, [f"{number:.2f}" if number < 10 else f"{number:.0f}" for number in values], padding=3)
        panel.invert_yaxis()
        panel.set(title=result.workload, xlabel=label)
        panel.margins(x=0.12)
    _save(plt, figure, path)


def upserts(results: Sequence[WorkloadResult], path: Path) -> None:
    """Median seconds of every peer, a panel a workload."""
    _bars(results, "seconds", lambda peer: peer.median, path)


def memory(results: Sequence[WorkloadResult], path: Path) -> None:
    """Peak memory of every peer, a panel a workload."""
    _bars(results, "peak MB", lambda peer: peer.peak_bytes / 2**20, path)


def memory_limits(found: Sequence[Timing], path: Path) -> None:
    """Peak memory of each step, a panel a workload and limit; a line where the promise ends."""
    plt = _pyplot()
    shown = [one for one in found if one.failed is None and one.seconds]
    workloads, limits = (
        list(dict.fromkeys(names)) for names in zip(*((o.workload, o.peer) for o in shown), strict=True)
    )
    size = (3.2 * len(limits), 1.9 * len(workloads))
    figure, panels = plt.subplots(len(workloads), len(limits), figsize=size, squeeze=False, layout="constrained")
    for row, workload in zip(panels, workloads, strict=True):
        for panel, limit in zip(row, limits, strict=True):
            mine = [one for one in shown if (one.workload, one.peer) == (workload, limit)]
            panel.set_title(f"{workload}, {limit}", fontsize=8)
            panel.tick_params(labelsize=7)
            if not mine:
                continue
            bars = panel.barh([one.title for one in mine], [int(one.facts["peak MB"]) for one in mine], color=_OURS)
            panel.bar_label(bars, fontsize=6, padding=2)
            panel.axvline(int(mine[0].facts["limit MB"]) + 500, color=_FLOOR)
            panel.invert_yaxis()
            panel.margins(x=0.15)
    figure.supxlabel("peak MB", fontsize=8)
    _save(plt, figure, path)


def growth(results: Sequence[WorkloadResult], path: Path) -> None:
    """Median seconds by rows of the table, a line a peer."""
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(8, 4), layout="constrained")
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in sorted(results, key=lambda one: one.base_rows):
        for peer in result.peers:
            if peer.failed is None and peer.seconds:
                lines.setdefault(peer.peer, []).append((result.base_rows / 1e6, peer.median))
    for peer_name, points in lines.items():
        panel.plot(*zip(*points, strict=True), marker="o", markersize=4, label=peer_name)
    panel.set(xlabel="million rows in the table", ylabel="seconds", xscale="log", yscale="log")
    panel.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    _save(plt, figure, path)


def year(days: Sequence[Day], path: Path) -> None:
    """CPU of a day's upsert, of the weekly upkeep and of reads, files and bytes, a panel each; events as lines."""
    plt = _pyplot()
    figure, panels = plt.subplots(5, 1, figsize=(8.5, 9.5), sharex=True, layout="constrained")
    costs = [("upsert", "upsert, CPU s"), ("upkeep", "weekly upkeep, CPU s"), ("read", "read of all, CPU s")]
    for panel, (name, title) in zip(panels, costs, strict=False):
        mine = [(day.number, day.took[name][1]) for day in days if name in day.took]
        panel.plot(*zip(*mine, strict=True), ".", color=_OURS, markersize=3)
        panel.set_ylabel(title, fontsize=8)
    files: dict[str, list[float]] = {
        "below the table": [day.objects for day in days],
        "of them in .hoodie": [day.own for day in days],
        "of runs, beside it": [day.beside for day in days],
        "live base files": [day.files for day in days],
    }
    sizes = {"MB": [day.bytes / 1e6 for day in days], "of them in .hoodie": [day.own_bytes / 1e6 for day in days]}
    sizes["thousand live rows"] = [day.rows / 1e3 for day in days]
    for panel, title, lines in ((panels[3], "files", files), (panels[4], "MB, thousand rows", sizes)):
        for (name, values), color in zip(lines.items(), (_OURS, _FLOOR, _THEIRS, "#5b6b7a"), strict=False):
            panel.plot([day.number for day in days], values, color=color, linewidth=1, label=name)
        panel.set_ylabel(title, fontsize=8)
        panel.legend(fontsize=7, frameon=False, ncols=4, loc="upper left")
    for number, panel in enumerate(panels):
        panel.set_ylim(bottom=0, top=panel.get_ylim()[1] * (1.25 if number > 2 else 1))
        panel.tick_params(labelsize=7)
        for day in days:
            if day.event:
                panel.axvline(day.number, color=_THEIRS, linewidth=0.8, linestyle=":")
                if not number:
                    place = {"xy": (day.number, 1.02), "xycoords": ("data", "axes fraction"), "ha": "center"}
                    panel.annotate(day.event, fontsize=7, **place)
    panels[-1].set_xlabel("day", fontsize=8)
    _save(plt, figure, path)


def ratios(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], path: Path) -> None:
    """A map of ratios: blue where they are above one, orange where they are below, grey where there is none."""
    plt = _pyplot()
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

    colors = LinearSegmentedColormap.from_list("ratios", [_FLOOR, "#ffffff", _OURS]).with_extremes(bad="#e3e7eb")
    figure, panel = plt.subplots(figsize=(1.6 + 0.75 * len(columns), 1.5 + 0.32 * len(rows)), layout="constrained")
    shown = [[float("nan") if value is None else value for value in row] for row in values]
    panel.imshow(shown, cmap=colors, norm=LogNorm(1 / 8, 8), aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            if value is not None:
                strong = not 1 / 4 < value < 4
                number = f"{value:.2f}" if value < 10 else f"{value:.0f}"
                panel.text(x, y, number, ha="center", va="center", fontsize=8, color="white" if strong else "black")
    panel.set_xticks(range(len(columns)), columns, rotation=40, ha="left", rotation_mode="anchor", fontsize=8)
    panel.set_yticks(range(len(rows)), rows, fontsize=8)
    panel.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    panel.spines[:].set_visible(False)
    _save(plt, figure, path)


def look_ups(found: Sequence[Timing], engines: Mapping[str, str], kinds: Sequence[str], path: Path) -> None:
    """Median seconds by number of keys: a panel an engine, a line an index type."""
    plt = _pyplot()
    figure, panels = plt.subplots(1, len(engines), figsize=(11, 3.6), sharey=True, layout="constrained")
    shown: dict[str, Any] = {}
    for panel, (engine, title) in zip(panels, engines.items(), strict=True):
        for number, kind in enumerate(kinds):
            mine = [one for one in found if one.peer == f"{engine}-{kind}" and one.seconds]
            points = sorted((int(one.facts["keys"].replace(",", "")), one.median) for one in mine)
            if points:
                style: dict[str, Any] = {"marker": "o", "markersize": 3.5, "color": f"C{number}", "label": kind}
                (shown[kind],) = panel.plot(*zip(*points, strict=True), **style)
        panel.set(title=title, xlabel="keys in the batch", xscale="log", yscale="log")
        panel.grid(visible=True, which="major", alpha=0.3)
    panels[0].set_ylabel("seconds of the look-up")
    figure.legend(shown.values(), shown.keys(), loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle(found[0].workload)
    _save(plt, figure, path)
