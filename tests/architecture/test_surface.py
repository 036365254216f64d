"""The one command surface: make prints its targets, CI calls only those, and each marker has a target."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from scripts import suites

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: ([a-z][a-z0-9-]*)$", MAKEFILE, re.MULTILINE))


def test_make_prints_every_target() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"make ([a-z][a-z0-9-]*)", said)) >= TARGETS - {"help"}
    assert {"setup", "test", "lint", "demo", "interop", "bench", "s3"} <= TARGETS


def test_ci_calls_targets_that_exist() -> None:
    called = {suite.target for suite in suites.FIRST} | {suite.target for lane in suites.LANES for suite in lane}
    assert called <= TARGETS
    assert {"lint", "test", "interop", "kill", "test-cluster", "test-demo"} <= called
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("scripts/suites.py < /dev/null")


def test_suites_are_ended_at_their_limit_and_what_failed_is_told(tmp_path: Path) -> None:
    """By the runner itself, with commands in the place of make's."""
    with (tmp_path / "log").open("wb") as log:
        assert suites.run_within(["true"], 60, log.fileno())[0] == 0
        assert suites.run_within(["false"], 60, log.fileno())[0] == 1
        code, cpu = suites.run_within(["sh", "-c", "echo begun; sleep 600 & wait"], 0.5, log.fileno())
    assert (code, (tmp_path / "log").read_text()) == (124, "begun\n")
    assert cpu < 60
    run = suites.Run(tmp_path)
    lines = {
        "model": "FAILED tests/model/a.py::test_b - c\n=== 1 failed, 2 passed in 3.00s ===\n",
        "s3": "== 5 passed in 1.0s ==",
    }
    for target, said in lines.items():
        run.log(suites.Suite(target, 1)).write_text(said)
        counted = suites.COUNTS.findall(said)[-1]
        run.outcomes.append(suites.Outcome(suites.Suite(target, 1), int("failed" in said), 3.0, 2.0, counted))
    told = run.summary().splitlines()
    assert [line for line in told if line.startswith(("model", "s3"))] == [
        "model                3 s      2 s of CPU  FAILED (1)  1 failed, 2 passed",
        "s3                   3 s      2 s of CPU  ok  5 passed",
    ]
    assert told[-2:] == ["FAILED tests/model/a.py::test_b - c", "failed: model"]


def test_every_marker_that_make_test_leaves_out_has_a_target() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {text.split(":")[0] for text in config["markers"]}
    apart = set(re.search(r"^APART := (.+)$", MAKEFILE, re.MULTILINE).group(1).split(" or "))  # type: ignore[union-attr] # it is there
    assert markers == apart | {"spark", "dag", "few(n)"}
    for marker in apart:
        assert f"-m {marker}" in MAKEFILE


def test_lock_names_no_registry_and_not_the_package_that_breaks_pyspark() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert not re.search(r"^pyspark-client", lock, re.MULTILINE)
    pins = re.findall(r"^([a-z0-9._-]+)==\S+", lock, re.MULTILINE | re.IGNORECASE)
    assert len(pins) > 100
    assert lock.count("--hash=sha256:") >= len(pins)
