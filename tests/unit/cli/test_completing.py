"""What a shell offers, through click's own protocol."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from lakeindex.cli import main
from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex
from tests.unit.cli.tables import batch, row, table_with


def offered(*words: str, incomplete: str = "") -> list[str]:
    shell = ShellComplete(main, {}, "lakeindex", "_LAKEINDEX_COMPLETE")
    return [item.value for item in shell.get_completions(list(words), incomplete)]


def test_commands_and_options():
    assert "upsert" in offered(incomplete="up")
    assert "--max-quarantined" in offered("upsert", "t", "b", incomplete="--max")


def test_names_of_o():
    assert offered("upsert", "t", "-o", incomplete="lakeindex.metrics") == ["lakeindex.metrics.textfile="]
    assert "hoodie.table.keygenerator.type=" in offered("create", "t", "-o", incomplete="hoodie.table.key")
    assert offered("upsert", "t", "-o", incomplete="hoodie.table.key") == []


@pytest.mark.parametrize(
    ("incomplete", "values"),
    [
        ("lakeindex.openlineage=", ["true", "false"]),
        ("lakeindex.report=H", ["html"]),
        ("hoodie.parquet.compression.codec=s", ["snappy"]),
        ("lakeindex.lock.wait=", []),
        ("no.such.option=", []),
    ],
)
def test_values_of_o(incomplete: str, values: list[str]):
    assert [one.partition("=")[2] for one in offered("upsert", "t", "-o", incomplete=incomplete)] == values


def test_runs_the_newest_first_and_instants(tmp_path: Path):
    table = table_with.__wrapped__(tmp_path)  # its run folder is offered
    time.sleep(0.02)
    lakeindex("upsert", table, batch(tmp_path / "b.parquet", [row(1, ts=2)]), "--batch-id", "second")
    root = f"{table}.lakeindex"
    runs = offered("report", incomplete=f"{root}/")
    assert len(runs) == 2
    assert "batch-second" in runs[0]
    assert offered("compare", runs[0], incomplete=f"{root}/batch") == [runs[0]]
    assert offered("report", incomplete="s3://b/") == ["s3://b/"]
    instants = offered("rollback", str(table))
    assert instants == sorted(instants, reverse=True)
    assert len(instants) == 2
    assert offered("rollback", str(tmp_path)) == []
    for version in ("6", "9"):
        other = make_table(tmp_path / version, hoodie__write__table__version=version)
        instant = other.upsert(batch_of([Row("a", "x", 1, "")])).instant
        replaced = other.insert_overwrite(batch_of([Row("b", "x", 2, "")])).instant
        assert offered("rollback", str(tmp_path / version)) == [replaced, instant]


def test_a_shell_gets_its_script_and_its_answers_without_data_libraries():
    code = (
        "import sys\nfrom lakeindex.cli import main\n"
        "try:\n    main([], prog_name='lakeindex')\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print(sorted({'pyarrow', 'numpy', 'obstore', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "_LAKEINDEX_COMPLETE": "zsh_complete", "COMP_WORDS": "lakeindex rep", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert "report" in done.stdout
    assert done.stderr.strip() == "[]"
    env = {**os.environ, "_LAKEINDEX_COMPLETE": "fish_source"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert "complete" in done.stdout
