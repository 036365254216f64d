"""The environment of the checkout's commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENV = Path(__file__).resolve().parents[3] / "scripts/env.py"


def airflow_in(**given: str) -> dict[str, str]:
    told = {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW")}
    script = "import os; print(*(f'{k}={v}' for k, v in os.environ.items() if k.startswith('AIRFLOW')), sep='\\n')"
    command = [sys.executable, str(ENV), "run", "--", sys.executable, "-c", script]
    done = subprocess.run(command, env={**told, **given}, capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_tasks_ask_the_web_interface_wherever_it_is() -> None:
    name = "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"
    assert airflow_in()[name] == "http://127.0.0.1:8080/execution/"
    assert airflow_in(AIRFLOW__API__PORT="9999")[name] == "http://127.0.0.1:9999/execution/"
    assert airflow_in(AIRFLOW__API__PORT="9999", **{name: "http://elsewhere/"})[name] == "http://elsewhere/"


def test_what_is_imported_is_compiled_once() -> None:
    """In whatever way the environment is used."""
    name = "PYTHONDONTWRITEBYTECODE"
    given = {**os.environ, name: "1"}
    show = [sys.executable, "-c", f"import os; print({name!r} in os.environ)"]
    run = subprocess.run(
        [sys.executable, str(ENV), "run", "--", *show], env=given, capture_output=True, text=True, check=True
    )
    printed = subprocess.run([sys.executable, str(ENV), "print"], env=given, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
    assert f"unset {name}" in printed.stdout.splitlines()
