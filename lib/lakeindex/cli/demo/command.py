"""``lakeindex demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lakeindex.cli.screen import screen
from lakeindex.cli.shared import json_option


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="An empty folder for table, run folders and reports; default: a new temporary folder, which stays.",
)
@json_option
def demo(folder: Path | None, as_json: bool) -> None:
    """Upsert orders that it makes itself, and show what each stage did. It needs nothing but this library.

    A table is made and loaded with six days of orders; then a batch with new, changed, late, repeated, cancelled and
    bad rows is upserted. Every count is compared with what is known of the data: a difference is exit code 6.
    """
    from lakeindex.cli.demo.story import play

    if as_json:
        click.echo(play(folder, lambda _, __: None).to_json())
        return
    from lakeindex.cli.demo.rendering import show_demo, show_step

    console = screen()

    def tell(step: str, done: Any) -> None:
        show_step(console, step, done)

    show_demo(console, play(folder, tell))
