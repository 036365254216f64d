"""What a stranger gets: the wheel in an environment of its own, with each extra, without this checkout."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.hashing import compile_loops
from lakeindex.pipeline import Stage

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).resolve().parents[2]
TABLE_YAML = "title: Orders\nuri: lake/orders\nschedule: '@daily'\nstart_date: 2026-01-01\ninput: in/{{ ds }}.parquet\n"


@dataclass(frozen=True)
class Env:
    """An environment with the wheel in it; its commands know nothing of the checkout."""

    folder: Path
    said: str

    def run(self, *command: str, more: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """Standard output of one of its commands."""
        env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "LAKEINDEX_HOME", "PYSPARK_PYTHON"}}
        env |= {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", **(more or {})}
        found = [str(self.folder / "bin" / command[0]), *command[1:]]
        return ran(found, env, cwd or self.folder)

    def python(self, code: str, more: Mapping[str, str] | None = None) -> str:
        """What a piece of Python prints."""
        return self.run("python", "-c", code, more=more).strip()


def ran(command: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def uv() -> str:
    found = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    assert Path(found).exists(), "no uv on PATH or in .uv: make setup puts it there"
    return found


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by way of the source distribution, so that has to be whole too."""
    out = tmp_path_factory.mktemp("dist")
    ran([uv(), "build", "--quiet", "--out-dir", str(out)])
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All environments are made here, one after the other: installing takes longest."""
    return tmp_path_factory.mktemp("place") / "env"


def installed(wheel: Path, folder: Path, extra: str) -> Env:
    """A new environment with the wheel and an extra, in the versions of the lock."""
    shutil.rmtree(folder, ignore_errors=True)
    ran([uv(), "venv", "--quiet", "--python", sys.executable, str(folder)])
    command = [uv(), "pip", "install", "--python", str(folder / "bin" / "python")]
    command += ["--override", "requirements.override", "--constraint", "requirements.lock", f"{wheel}[{extra}]"]
    for source in (["--offline"], []):  # what make setup has fetched, PySpark's 500 MB above all, is not fetched again
        done = subprocess.run([*command, *source], capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode == 0:
            return Env(folder, done.stderr)
    raise AssertionError(done.stderr[-4000:])


def use(env: Env, *options: str) -> None:
    """Import, help, and a small upsert."""
    where = env.python("import lakeindex; print(lakeindex.__file__)")
    assert Path(where).is_relative_to(env.folder)
    assert "upsert" in env.run("lakeindex", "--help")
    table, rows = env.folder / "t", env.folder / "rows.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "ts": [1, 2]}), rows)
    env.run("lakeindex", "create", str(table), "--like", str(rows), "--key", "id", "--ordering", "ts")
    summary = json.loads(env.run("lakeindex", "upsert", str(table), str(rows), "--json", *options))
    assert (summary["inserts"], summary["noop"]) == (2, False)


def test_the_wheel_has_what_it_needs_and_nothing_of_the_checkout(wheel: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"lakeindex/jobs/{path.name}" for path in (ROOT / "jobs").glob("*.py")} | {
        "lakeindex/dags/upsert_table.py"
    }
    library = f"lakeindex/hashing/{compile_loops.library().name}"
    assert wanted | {"lakeindex/py.typed", "lakeindex/report/page.html.jinja", library} <= names
    assert [name for name in names if "/loops." in name and not name.endswith((".c", ".py"))] == [library]
    assert re.search(r"-py3-none-\w+_\d+_\w+(\.\w+)*\.whl$", wheel.name)  # of a platform, for every Python
    assert {name.split("/")[0] for name in names} == {"lakeindex", "lakeindex-0.1.0.dist-info"}


def test_s3_is_a_name_for_what_the_core_has(wheel: Path, place: Path):
    env = installed(wheel, place, "s3")
    assert "does not have an extra" not in env.said
    use(env)
    checks = {one["name"]: one["found"] for one in json.loads(env.run("lakeindex", "doctor", "--json"))["checks"]}
    assert checks["loops"].startswith(f"compiled, {env.folder}")
    shown = json.loads(env.run("lakeindex", "demo", "--json", more={"TMPDIR": str(env.folder), "JAVA_HOME": ""}))
    assert shown["rows"] == 59_970
    assert Path(shown["report"]).is_relative_to(env.folder)
    assert 'class="chart funnel"' in Path(shown["report"]).read_text(encoding="utf-8")
    where = "from lakeindex.storage import open_storage; print(open_storage('s3://bucket/t').uri)"
    assert env.python(where, {"AWS_REGION": "eu-west-1", "AWS_SKIP_SIGNATURE": "true"}) == "s3://bucket/t"
    needs = "import importlib.util as u; print([n for n in ('pyspark', 'airflow', 'pandas', 'happybase') if u.find_spec(n)])"
    assert env.python(needs) == "[]"
    refused = (
        "from lakeindex.errors import OptionError\ntry: open_storage('hdfs://host:1/t')\n"
        "except OptionError as error: print(error.hint)"
    )
    assert "lakeindex[hdfs]" in env.python(f"from lakeindex.storage import open_storage\n{refused}")


def test_hbase_and_hdfs(wheel: Path, place: Path):
    env = installed(wheel, place, "hbase,hdfs")
    use(env)
    where = "from lakeindex.storage import open_storage; print(open_storage('hdfs://127.0.0.1:1/t').uri)"
    assert env.python(where) == "hdfs://127.0.0.1:1/t"
    assert env.python("import lakeindex.index.hbase.hbase_rows, happybase; print('there')") == "there"


def test_spark(wheel: Path, place: Path):
    env = installed(wheel, place, "spark")
    use(env, "--runner", "spark", "--master", "local[1]")


def test_airflow(wheel: Path, place: Path, tmp_path: Path):
    """The DAG files, their tables and the jobs, all found from the installed library."""
    env = installed(wheel, place, "airflow,spark")
    use(env)
    connection = {"AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}'}
    assert json.loads(env.run("lakeindex", "doctor", "--json", more=connection))["error"] is None
    home = tmp_path / "airflow"
    (home / "conf" / "tables").mkdir(parents=True)
    (home / "conf" / "tables" / "orders.yaml").write_text(TABLE_YAML)
    said = json.loads(env.run("lakeindex", "dags", str(home / "dags"), "--json"))
    assert said["written"] == said["files"]
    airflow = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
    }
    code = (
        "import json, os\nfrom airflow.dag_processing.dagbag import DagBag\n"
        "from airflow.providers_manager import ProvidersManager\n"
        "bag = DagBag(os.environ['AIRFLOW__CORE__DAGS_FOLDER'])\n"
        "jobs = sorted({t.application for d in bag.dags.values() for t in d.tasks if hasattr(t, 'application')})\n"
        "print(json.dumps([sorted(bag.dags), bag.import_errors, jobs, 'lakeindex' in ProvidersManager().providers]))"
    )
    dags, errors, jobs, is_provider = json.loads(env.python(code, airflow).splitlines()[-1])
    assert is_provider
    assert errors == {}
    assert dags == ["example_consumer", "maintain_tables", "upsert_orders", "upsert_table", "upsert_tables"]
    assert {Path(job).name for job in jobs} >= {f"{stage}.py" for stage in Stage}
    assert all(Path(job).is_file() and Path(job).parent == Path(said["jobs"]) for job in jobs)
    assert Path(said["jobs"]).is_relative_to(env.folder)
    help_text = env.run("python", f"{said['jobs']}/upsert.py", "--help")
    assert "--batch-id" in help_text


LINE = re.compile(r"(?:uv )?pip install (?:--override \S+ )?('lakeindex\[[a-z,-]+\]'[^`\n#]*)")
"""An installation as a page has it, without what comes before the packages."""
VERSIONS = (
    "import json\nfrom importlib.metadata import PackageNotFoundError, version\ndef of(name):\n"
    "    try: return version(name)\n    except PackageNotFoundError: return None\n"
    "print(json.dumps([of('pyspark'), of('pyspark-client')]))"
)


def documented() -> list[tuple[bool, str]]:
    """Each installation with extras of the pages: whether the override is part of it, and the packages."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = {
        ("--override" in line[0], line[1].strip()): None for page in pages for line in LINE.finditer(page.read_text())
    }
    return list(found)


def test_each_documented_installation_is_of_one_pyspark(wheel: Path, place: Path):
    """Airflow's Spark provider asks for pyspark-client, which lies in pyspark's folder. Versions are those of a registry."""
    lines = documented()
    assert len(lines) >= 6
    assert any(overrides for overrides, _ in lines)
    wrong = []
    for overrides, packages in lines:
        shutil.rmtree(place, ignore_errors=True)
        ran([uv(), "venv", "--quiet", "--python", sys.executable, str(place)])
        wanted = [word.replace("lakeindex[", f"{wheel}[") for word in shlex.split(packages)]
        override = ["--override", "requirements.override"] if overrides else []
        ran([uv(), "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), *override, *wanted])
        env = Env(place, "")
        pyspark, client = json.loads(env.python(VERSIONS))
        if client not in (None, pyspark) or env.python("import lakeindex; print(1)") != "1":
            wrong.append((packages, pyspark, client))
    assert wrong == []
