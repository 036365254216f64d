"""Charts of a report as SVG, drawn by pygal: no scripts, colours from the page's style, every text escaped."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from typing import Any, Final

import pygal
from pygal.style import Style

from lakeindex.report.run_report import PastRun, RangeMap, RunReport, SizeBin
from lakeindex.report.text import human_count

# pygal looks for plug-ins of its own by an import hook of the old kind, which warns at every
# import of the whole process
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]

_STYLE: Final = Style(
    background="transparent",
    plot_background="transparent",
    foreground="var(--text)",
    foreground_strong="var(--text)",
    foreground_subtle="var(--line)",
    opacity=".85",
    opacity_hover="1",
    colors=("var(--blue)", "var(--orange)", "var(--green)", "var(--pink)", "var(--grey)"),
    font_family="inherit",
    label_font_size=14,
    major_label_font_size=14,
    value_font_size=14,
    value_label_font_size=14,
    legend_font_size=14,
    tooltip_font_size=14,
    value_colors=("var(--text)",) * 5,
)
_WIDTH: Final = 560
_SCRIPT: Final = re.compile(r"<script.*?</script>", re.DOTALL)
_ROW_HEIGHT: Final = 30
_SCALE: Final = 1_000
_ROOM: Final = 0.12
"""Bars shorter than this share of the longest have no room for their number."""


def _options(height: int, **more: Any) -> dict[str, Any]:
    return {
        "style": _STYLE,
        "js": [],
        "width": _WIDTH,
        "height": height,
        "show_legend": False,
        "disable_xml_declaration": True,
        "margin": 6,
        "truncate_label": -1,
        "no_data_text": "nothing to show",
        **more,
    }


def _svg(chart: Any) -> str:
    """The chart without the script that pygal puts even where there is nothing to run."""
    return _SCRIPT.sub("", chart.render(is_unicode=True))


def funnel_chart(report: RunReport) -> str:
    """The funnel: a bar a step, on a scale of powers of ten, for steps differ by thousands."""
    # the first step belongs on top, and pygal draws from the bottom
    steps = list(reversed(report.funnel))
    colours = {"rows": "var(--blue)", "pairs": "var(--orange)"}
    bars = [
        {
            "value": math.log10(1 + step.count),
            "color": colours[step.unit],
            "formatter": lambda _, count=step.count: human_count(count),
        }
        for step in steps
    ]
    longest = max([float(str(bar["value"])) for bar in bars], default=0.0)
    chart = pygal.HorizontalBar(**_options(60 + _ROW_HEIGHT * len(steps), print_values=True, range=(0, longest or 1.0)))
    chart.show_x_labels = True
    chart.x_labels = [step.name for step in steps]
    powers = [10**power for power in range(math.floor(longest) + 1)]
    chart.y_labels = [{"label": human_count(one), "value": math.log10(1 + one)} for one in powers]
    chart.add("", bars)
    return _svg(chart)


def stages_chart(report: RunReport) -> str:
    """Seconds of each stage; of the tasks beside them the slowest and the one in the middle."""
    stages = list(reversed(report.run.stages))
    longest = max([stage.seconds for stage in stages], default=0.0)
    chart = pygal.HorizontalBar(
        **_options(
            90 + 2 * _ROW_HEIGHT * len(stages),
            show_legend=True,
            legend_at_bottom=True,
            legend_at_bottom_columns=3,
            truncate_legend=-1,
            print_values=True,
        ),
        formatter=lambda value: f"{value:.2f} s" if value and value > longest * _ROOM else "",
    )
    chart.x_labels = [stage.name for stage in stages]
    chart.add("the stage", [stage.seconds for stage in stages])
    chart.add("its slowest task", [stage.slowest_task_seconds or None for stage in stages])
    chart.add("its median task", [stage.median_task_seconds or None for stage in stages])
    return _svg(chart)


def sizes_chart(sizes: Sequence[SizeBin]) -> str:
    """How many files there are of which size."""
    chart = pygal.Bar(**_options(280, show_legend=True, legend_at_bottom=True, print_values=True, print_zeroes=False))
    chart.x_labels = [_label(sizes, at) for at in range(len(sizes))]
    chart.add("looked into", [one.in_scope for one in sizes])
    chart.add("written", [one.written for one in sizes])
    return _svg(chart)


def _label(sizes: Sequence[SizeBin], at: int) -> str:
    below = sizes[at].below_bytes
    return f">= {(sizes[at - 1].below_bytes or 0) >> 20} MiB" if below is None else f"< {below >> 20} MiB"


def ranges_chart(ranges: RangeMap) -> str:
    """Key ranges of files, one below the other: where they stand side by side, a key is looked for in few files."""
    lines = list(reversed(ranges.lines))
    chart = pygal.HorizontalStackedBar(
        **_options(40 + max(6, min(14, 900 // max(len(lines), 1))) * len(lines), show_y_guides=False, spacing=1),
        range=(0, _SCALE),
        formatter=lambda _: "",
    )
    chart.show_y_labels = False
    chart.show_x_labels = False
    chart.add("", [{"value": line.low * _SCALE, "style": "fill: none; stroke: none"} for line in lines])
    chart.add(
        "",
        [
            {"value": max((line.high - line.low) * _SCALE, 2), "label": f"{line.partition} {line.file_id}"}
            for line in lines
        ],
    )
    return _svg(chart)


def past_chart(report: RunReport, past: Sequence[PastRun]) -> str:
    """Seconds of earlier runs by stage, and of this one."""
    runs = [(one.finished_at, one.stage_seconds) for one in reversed(past)]
    runs.append(("this run", {stage.name: stage.seconds for stage in report.run.stages}))
    chart = pygal.StackedBar(
        **_options(
            320,
            show_legend=True,
            legend_at_bottom=True,
            legend_at_bottom_columns=5,
            truncate_legend=-1,
            x_label_rotation=30,
        ),
        formatter=lambda value: f"{value or 0:.2f} s",
    )
    chart.x_labels = [name.removesuffix("+00:00").replace("T", " ") for name, _ in runs]
    for name in dict.fromkeys(stage for _, seconds in runs for stage in seconds):
        chart.add(name, [seconds.get(name, 0.0) for _, seconds in runs])
    return _svg(chart)
