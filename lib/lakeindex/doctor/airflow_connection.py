"""Where Airflow would submit jobs to: a connection that is missing or malformed silently means YARN."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from lakeindex.doctor.findings import Check, fail, ok, warn
from lakeindex.doctor.packages import Installed, installed_version

VARIABLE: Final = "AIRFLOW_CONN_SPARK_DEFAULT"
_NAME: Final = "airflow connection spark_default"
_CURE: Final = (
    """set AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]"}' (or spark://HOST, with a port)"""
)
_SECONDS: Final = 90

#: Asks Airflow itself for the connection; None if it has none.
AskAirflow = Callable[[], Mapping[str, Any] | None]


def check_connection(
    environ: Mapping[str, str] | None = None, installed: Installed = installed_version, ask: AskAirflow | None = None
) -> Check | None:
    """Whether jobs go where one thinks they go; None without Airflow.

    Args:
        environ: where ``AIRFLOW_CONN_SPARK_DEFAULT`` is looked for; by default this process's environment.
        installed: what is installed.
        ask: asked if the variable is not set; by default the command ``airflow``.
    """
    if installed("apache-airflow") is None:
        return None
    text = (os.environ if environ is None else environ).get(VARIABLE)
    if text is None:
        found = (ask or _ask_airflow)()
        if found is None:
            return warn(_NAME, f"{VARIABLE} is not set, and Airflow does not know it: jobs would go to YARN", _CURE)
        return _verdict(found, "in Airflow")
    try:
        found = json.loads(text)
    except ValueError:
        return fail(_NAME, f"{VARIABLE} is no JSON: as a URL it is easily misread, and then jobs go to YARN", _CURE)
    if not isinstance(found, dict):
        return fail(_NAME, f"{VARIABLE} is no JSON object", _CURE)
    return _verdict(found, VARIABLE)


def _verdict(found: Mapping[str, Any], where: str) -> Check:
    kind, host, port = found.get("conn_type"), found.get("host"), found.get("port")
    if kind != "spark":
        return fail(_NAME, f"{where}: conn_type is {kind!r}, not 'spark'", _CURE)
    if not host:
        return fail(_NAME, f"{where}: it has no host", _CURE)
    master = f"{host}:{port}" if port else str(host)
    if master.startswith("yarn"):
        return warn(_NAME, f"{where}: --master yarn", "leave it so if you mean YARN; else " + _CURE)
    return ok(_NAME, f"{where}: --master {master}")


def _ask_airflow() -> Mapping[str, Any] | None:
    command = shutil.which("airflow", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if command is None:
        return None
    asked = [command, "connections", "get", "spark_default", "--output", "json"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603 - a command we looked up
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if isinstance(answer, list):
        answer = answer[0] if answer else None
    return answer if isinstance(answer, dict) else None
