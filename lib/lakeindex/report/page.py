"""A report as one HTML page: no network, no scripts, light and dark."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from lakeindex.model import VERSION
from lakeindex.report import charts
from lakeindex.report.run_report import RunReport
from lakeindex.report.titles import title_of
from lakeindex.run.summary import RunSummary
from lakeindex.showing.text import human_bytes, human_count, printable


def render_page(report: RunReport) -> str:
    """The page. Everything that comes from a table or a batch is escaped; the page forbids scripts and the network."""
    return template("page.html.jinja").render(
        report=report,
        run=report.run,
        title=title_of(report),
        numbers=_numbers(report.run),
        charts=charts,
        version=VERSION,
    )


def _numbers(run: RunSummary) -> list[tuple[str, str]]:
    shown = [("rows in", human_count(run.rows_in))]
    shown += [(name, human_count(count)) for name, count in run.fates.items()]
    shown += [
        ("seconds", f"{run.seconds:.2f}"),
        ("files written", human_count(run.files_created + run.files_rewritten)),
    ]
    return [*shown, ("written", human_bytes(run.bytes_written))]


@functools.cache
def template(name: str) -> jinja2.Template:
    """A template of this package. Every text is escaped, and shown as far as it can be."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda one: files("lakeindex.report").joinpath(one).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters |= {"count": human_count, "bytes": human_bytes}
    return environment.get_template(name)


def _shown(value: Any) -> Any:
    """Foreign texts without what could change how they are shown; markup as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
