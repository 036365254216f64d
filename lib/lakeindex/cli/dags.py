"""``lakeindex dags``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lakeindex.cli.shared import json_option
from lakeindex.doors import DAG_FILE, dag_text, jobs_folder
from lakeindex.errors import UsageError


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@click.option("--force", is_flag=True, help="Replace a file that says something else.")
@json_option
def dags(folder: Path, force: bool, as_json: bool) -> None:
    """Write the DAG file for Airflow into FOLDER, its dags folder.

    Tables are looked for in conf/tables beside FOLDER, or where LAKEINDEX_TABLES says. The jobs come from the library.
    """
    file, text = folder / DAG_FILE, dag_text()
    there = file.read_text(encoding="utf-8") if file.is_file() else None
    if there is not None and there != text and not force:
        raise UsageError(
            f"{file} is there and says something else", culprit=str(file), hint="move it away, or give --force"
        )
    if there != text:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    tables = (folder.resolve().parent / "conf" / "tables").as_posix()
    if as_json:
        found = {"schema_version": 1, "file": str(file), "written": there != text, "tables": tables}
        click.echo(json.dumps({**found, "jobs": str(jobs_folder(folder.resolve().parent))}))
        return
    click.echo(f"{'wrote' if there != text else 'is up to date:'} {file}")
    click.echo(f"tables: {tables}/*.yaml, or below LAKEINDEX_TABLES")
    click.echo(f"jobs: {jobs_folder(folder.resolve().parent)}")
