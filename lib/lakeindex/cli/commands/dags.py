"""``lakeindex dags``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lakeindex.cli.shared import json_option
from lakeindex.errors import UsageError
from lakeindex.runners.shipped_files import DAG_FILES, dag_text, jobs_folder


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@click.option("--force", is_flag=True, help="Replace a file that has other content.")
@json_option
def dags(folder: Path, force: bool, as_json: bool) -> None:
    """Write the DAG files for Airflow into FOLDER, its dags folder.

    Tables are looked for in conf/tables beside FOLDER, or where LAKEINDEX_TABLES says. The jobs come from the library.
    """
    texts = {folder / name: dag_text(name) for name in DAG_FILES}
    there = {file: file.read_text(encoding="utf-8") if file.is_file() else None for file in texts}
    foreign = [file for file, text in texts.items() if there[file] not in (None, text)]
    if foreign and not force:
        raise UsageError(
            f"{foreign[0]} exists and has other content",
            culprit=str(foreign[0]),
            hint="move it away, or give --force",
        )
    written = [file for file, text in texts.items() if there[file] != text]
    folder.mkdir(parents=True, exist_ok=True)
    for file in written:
        file.write_text(texts[file], encoding="utf-8")
    tables = (folder.resolve().parent / "conf" / "tables").as_posix()
    jobs = str(jobs_folder(folder.resolve().parent))
    if as_json:
        files = [str(file) for file in texts]
        found = {"files": files, "written": [str(file) for file in written], "tables": tables, "jobs": jobs}
        click.echo(json.dumps({"schema_version": 1, **found}))
        return
    for file in texts:
        click.echo(f"{'wrote' if file in written else 'is up to date:'} {file}")
    click.echo(f"tables: {tables}/*.yaml, or below LAKEINDEX_TABLES")
    click.echo(f"jobs: {jobs}")
