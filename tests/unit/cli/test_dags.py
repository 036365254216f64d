"""``lakeindex dags``: the DAG file for those who have no checkout."""

from __future__ import annotations

from pathlib import Path

from lakeindex.runners.shipped_files import jobs_folder
from tests.cli_support import lakeindex, validate

ROOT = Path(__file__).resolve().parents[3]


def test_it_writes_the_dag_files_once_and_spares_what_is_there(tmp_path: Path):
    first = lakeindex("dags", tmp_path / "dags", "--json")
    validate("dags", first.json)
    names = sorted(path.name for path in (ROOT / "dags").glob("*.py") if path.name != "__init__.py")
    assert sorted(Path(path).name for path in first.json["written"]) == names
    assert first.json["files"] == first.json["written"]
    for name in names:
        assert (tmp_path / "dags" / name).read_text() == (ROOT / "dags" / name).read_text()
    file = tmp_path / "dags" / "upsert_table.py"
    assert lakeindex("dags", tmp_path / "dags", "--json").json["written"] == []
    file.write_text("mine")
    refused = lakeindex("dags", tmp_path / "dags", "--json")
    assert (refused.exit_code, refused.error["culprit"]) == (2, str(file))
    assert file.read_text() == "mine"
    assert "wrote" in lakeindex("dags", tmp_path / "dags", "--force").stdout
    assert file.read_text() != "mine"


def test_a_project_s_own_jobs_go_first(tmp_path: Path):
    assert jobs_folder() == jobs_folder(tmp_path) == ROOT / "jobs"
    (tmp_path / "jobs").mkdir()
    assert jobs_folder(tmp_path) == ROOT / "jobs"
    (tmp_path / "jobs" / "upsert.py").touch()
    assert jobs_folder(tmp_path) == tmp_path / "jobs"
