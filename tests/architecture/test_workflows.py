"""The workflows of .github: valid YAML, read-only, bounded, and calling what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CALLS = {
    "ci": "bash .ci/run",
    "compose": "sh docker/smoke.sh",
    "docs": "make docs",
    "mutants": "make mutants",
    "scorecard": "make scorecard",
    "versions": "make versions test-dag interop LAKEINDEX_INTEROP=all",
    "weekly": "make test test-version-9 model COVERAGE=1 LAKEINDEX_MODEL_LIMIT=80",
}


def load(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(file.read_text())
    return loaded


def test_there_is_one_for_each_thing_to_run() -> None:
    assert {file.stem for file in WORKFLOWS} == set(CALLS)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda f: f.stem)
def test_workflow_is_bounded_and_calls_what_is_there(file: Path) -> None:
    workflow = load(file)
    assert workflow["name"] == file.stem
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 180
        runs = [step["run"] for step in job["steps"] if "run" in step]
        assert runs == [CALLS[file.stem]]
        assert all(re.search(r"@v\d+$", step["uses"]) for step in job["steps"] if "uses" in step)
        script = runs[0].split()[-1]
        assert runs[0].startswith("make ") or (ROOT / script).is_file(), script
