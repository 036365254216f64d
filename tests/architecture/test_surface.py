"""The one command surface: make prints its targets, CI calls only those, and each marker has a target."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: ([a-z][a-z0-9-]*)$", MAKEFILE, re.MULTILINE))


def test_make_prints_every_target() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"make ([a-z][a-z0-9-]*)", said)) >= TARGETS - {"help"}
    assert {"setup", "test", "lint", "demo", "interop", "bench", "s3"} <= TARGETS


def test_ci_calls_targets_that_exist() -> None:
    called = re.findall(r"make --no-print-directory ([a-z0-9-]+)", (ROOT / ".ci/run").read_text())
    assert set(called) <= TARGETS
    assert {"lint", "test", "interop", "kill", "test-cluster", "test-demo"} <= set(called)


def test_every_marker_that_make_test_leaves_out_has_a_target() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = {text.split(":")[0] for text in config["markers"]}
    apart = set(re.search(r"^APART := (.+)$", MAKEFILE, re.MULTILINE).group(1).split(" or "))  # type: ignore[union-attr] # it is there
    assert markers == apart | {"spark", "dag"}
    for marker in apart:
        assert f"-m {marker}" in MAKEFILE


def test_lock_names_no_registry_and_not_the_package_that_breaks_pyspark() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert not re.search(r"^pyspark-client", lock, re.MULTILINE)
    pins = re.findall(r"^([a-z0-9._-]+)==\S+", lock, re.MULTILINE | re.IGNORECASE)
    assert len(pins) > 100
    assert lock.count("--hash=sha256:") >= len(pins)
