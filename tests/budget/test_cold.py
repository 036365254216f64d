"""What a command loads before it works: modules are most of a cold command's time.

The figures stand in ``cold.json``: modules of the library, and all modules, that each command has loaded at its end, and
the kilobytes of Python in those that are installed (not Python's own, which differ by version). They may grow by a
twentieth; record them anew, as the other budgets (:mod:`tests.budget.test_budget`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from tests.scheduling import some_of

BUDGET: Final = Path(__file__).with_name("cold.json")
MARGIN: Final = 0.05
HEAVY: Final = (
    *("pandas", "pyspark", "airflow", "duckdb", "polars", "sqlglot", "hdfs_native", "happybase", "boto3", "thriftpy2"),
    *("jinja2", "rich", "pyarrow.dataset", "importlib.metadata", "statistics"),
)
"""What nothing of a small table's work needs, as long as its output is no terminal."""
COMMANDS: Final = {
    "upsert": ["upsert", "{table}", "{batch}", "--batch-id", "cold"],
    "get": ["get", "{table}", "k000017"],
    "read": [
        "read",
        "{table}",
        "--where",
        "id IN ('k000017', 'k000018') AND ts > 0 AND day LIKE 'd%'",
        "--out",
        "{out}",
    ],
    "delete": ["delete", "{table}", "--where", "id = 'k019999' AND ts > 0"],
    "history": ["history", "{table}"],
    "inspect": ["inspect", "{table}"],
    "check": ["check", "{table}"],
    "options": ["options"],
}
NEEDED: Final = {"read": {"pyarrow.dataset"}, "delete": {"pyarrow.dataset"}}
"""Of these what a command needs all the same."""
_RUN: Final = """
import atexit, json, sys
out = sys.argv.pop(1)
def tell():
    with open(out, "w") as file:
        json.dump({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}, file)
atexit.register(tell)
from lakeindex.cli import main
main()
"""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table of four files and a batch of a thousand rows."""
    folder = tmp_path_factory.mktemp("cold")
    rows = pa.table(
        {"id": [f"k{n:06d}" for n in range(20_000)], "day": [f"d{n % 4}" for n in range(20_000)], "ts": [1] * 20_000}
    )
    table = lakeindex.create_table(str(folder / "t"), like=rows, key=["id"], partition=["day"], ordering="ts")
    table.upsert(rows)
    batch = rows.slice(0, 1000).set_column(2, "ts", pa.array([2] * 1000))
    pq.write_table(batch, folder / "batch.parquet")
    return {"table": str(folder / "t"), "batch": str(folder / "batch.parquet"), "out": str(folder / "out.parquet")}


def loaded(words: list[str], folder: Path) -> dict[str, str | None]:
    """Modules that a command has loaded at its end, and their files."""
    out = folder / "modules.json"
    env = {
        name: text for name, text in os.environ.items() if not name.startswith("COV")
    }  # which loads modules of its own
    command = [sys.executable, "-c", _RUN, str(out), *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str | None] = json.loads(out.read_text())
    return found


def kilobytes(files: Iterable[str | None]) -> int:
    """Python that is not Python's own, in files of modules."""
    own = sysconfig.get_paths()["stdlib"] + os.sep
    ours = {Path(file) for file in files if file and file.endswith(".py")}
    counted = [file for file in ours if "site-packages" in file.parts or not str(file).startswith(own)]
    return sum(file.stat().st_size for file in counted) // 1000


@pytest.mark.parametrize(
    "command", some_of(COMMANDS, {"upsert", "get", "read", "check"}.__contains__, pytest.mark.slow)
)
def test_a_cold_command_loads_what_it_needs(command: str, places: dict[str, str], tmp_path: Path) -> None:
    modules = loaded([word.format(**places) for word in COMMANDS[command]], tmp_path)
    assert [name for name in HEAVY if name in modules and name not in NEEDED.get(command, ())] == []
    found = {
        "all": len(modules),
        "kilobytes": kilobytes(modules.values()),
        "ours": sum(name.split(".")[0] == "lakeindex" for name in modules),
    }
    budget: dict[str, dict[str, int]] = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    if os.environ.get("LAKEINDEX_BUDGET") == "record":
        BUDGET.write_text(json.dumps(budget | {command: found}, indent=1, sort_keys=True) + "\n")
        return
    allowed = {name: int(count * (1 + MARGIN)) for name, count in budget[command].items()}
    assert {name: count for name, count in found.items() if count > allowed[name]} == {}, f"allowed: {allowed}"


def test_every_recorded_command_is_still_there() -> None:
    assert set(json.loads(BUDGET.read_text())) == set(COMMANDS)
