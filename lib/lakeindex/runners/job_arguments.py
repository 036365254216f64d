"""Command line of the jobs: every stage takes the same arguments, so a DAG works them out once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import click

from lakeindex.tasks import fast_start  # before anything that makes an Arrow array

# isort: split
from lakeindex.model import BATCH_OPERATIONS, Operation
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.storage.paths import absolute

#: Runs one stage (None: all of them), on Spark or by ``local=True`` on threads, and returns the exit code.
StageJob: TypeAlias = Callable[..., int]

_OPTIONS = (
    click.option("--table", "table_uri", required=True, metavar="URI", help="The table's folder."),
    click.option("--checkpoints", "checkpoints_uri", required=True, metavar="URI", help="Root of the run folders."),
    click.option("--run-id", required=True, metavar="ID", help="Name of the run's folder; a retry gives the same."),
    click.option("--batch-id", required=True, metavar="ID", help="Name of the batch; it is committed once."),
    click.option("--input", "inputs", required=True, multiple=True, metavar="URI", help="File, folder or * pattern."),
    click.option(
        "--operation", type=click.Choice([str(o) for o in BATCH_OPERATIONS]), default="UPSERT", show_default=True
    ),
    click.option(
        "--max-quarantined", type=click.IntRange(min=0), default=0, show_default=True, help="Bad rows allowed."
    ),
    click.option(
        "--force", is_flag=True, help="Commit a used batch id again; roll back pending instants of other writers."
    ),
    click.option(
        "--runner",
        type=click.Choice(["spark", "local"]),
        default="spark",
        show_default=True,
        help="local: threads of this process, started by Python alone.",
    ),
    click.option("-o", "options", multiple=True, metavar="KEY=VALUE", help="An option; docs/options.md lists them."),
)


def stage_command(stage: Stage | None, run: StageJob) -> click.Command:
    """The command of a job.

    Args:
        stage: the stage, or None for all of them in one application.
        run: does it; its return value is the exit code.
    """

    @click.command(name=str(stage or "upsert"))
    def command(runner: str, **given: Any) -> None:
        fast_start.loaded()
        sys.exit(run(stage, run_spec(**given), local=runner == "local"))

    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_spec(
    *,
    table_uri: str,
    checkpoints_uri: str,
    inputs: tuple[str, ...],
    operation: str,
    options: tuple[str, ...],
    **rest: Any,
) -> RunSpec:
    """The run as the arguments describe it.

    Raises:
        click.BadParameter: an option that is not KEY=VALUE.
        OptionError: a path or URL that is none.
    """
    return RunSpec(
        table_uri=absolute(table_uri),
        checkpoints_uri=absolute(checkpoints_uri),
        inputs=tuple(absolute(place) for place in inputs),
        operation=Operation(operation),
        options=tuple(sorted(_pair(text) for text in options)),
        **rest,
    )


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="-o")
    return key, value
