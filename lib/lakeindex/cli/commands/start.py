"""``lakeindex doctor``, ``dags`` and ``demo``: what helps to begin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from lakeindex.cli.program import Failure
from lakeindex.cli.shared import complete_table, json_option, say_compared, screen
from lakeindex.errors import UsageError


@click.command()
@click.argument("table", required=False, metavar="[TABLE]", shell_complete=complete_table)
@click.option("--spark", is_flag=True, help="Start Spark, and send rows through a Python worker.")
@click.option("--write", is_flag=True, help="Write, list and delete a probe below TABLE.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, table: str | None, spark: bool, write: bool, as_json: bool) -> None:
    """Check Python, packages, Java, Airflow's connection, memory and a table's storage, and say what to do.

    TABLE: a table's folder; it need not exist yet. Nothing is written without --write.
    """
    if write and table is None:
        raise UsageError("--write needs a table", culprit="--write", hint="name TABLE, below which a probe is written")
    from lakeindex.cli.doctor import examine

    found = examine(table, spark=spark, write=write)
    first = next(iter(found.failed), None)
    failure = None
    if first is not None:
        failure = Failure(first.error or "UsageError", first.found, first.name, first.cure, first.exit_code)
    say_compared(ctx, found, failure, as_json=as_json)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER")
@click.option("--force", is_flag=True, help="Replace a file that has other content.")
@json_option
def dags(folder: Path, force: bool, as_json: bool) -> None:
    """Write the DAG files for Airflow into FOLDER, its dags folder.

    Tables are looked for in conf/tables beside FOLDER, or where LAKEINDEX_TABLES says. The jobs come from the library.
    """
    from lakeindex.runners.shipped_files import DAG_FILES, dag_text, jobs_folder

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
    from lakeindex.cli.demo import play

    if as_json:
        click.echo(play(folder, lambda _, __: None).to_json())
        return
    from lakeindex.cli.demo import show_demo, show_step

    console = screen()

    def tell(step: str, done: Any) -> None:
        show_step(console, step, done)

    show_demo(console, play(folder, tell))
