"""Airflow's web interface with this project's DAGs, for one person on this machine (make airflow).

Everything is below ``.airflow``, and nothing listens but the web interface, on 127.0.0.1: ``airflow standalone`` also
serves logs on every address of the machine. Ends with Ctrl-C.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import env
import requests
import tenacity
from cluster_processes import Processes

PARTS: Final = {
    "api-server": ("--host", "127.0.0.1"),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}
SECONDS: Final = 120


def is_up(url: str) -> bool:
    try:
        return requests.get(f"{url}/api/v2/monitor/health", timeout=5).ok
    except requests.RequestException:
        return False


def main() -> int:
    """Start it, say where it is, and stay until a part ends or somebody interrupts."""
    around = env.environment()
    url = f"http://127.0.0.1:{around.get('AIRFLOW__API__PORT', '8080')}"
    if is_up(url):
        print(f"something answers at {url}: end it, or take another port (AIRFLOW__API__PORT=9090 make airflow)")
        return 1
    folder = Path(around["AIRFLOW_HOME"])
    folder.mkdir(parents=True, exist_ok=True)
    airflow = str(Path(sys.executable).parent / "airflow")
    subprocess.run([airflow, "db", "migrate"], env=around, check=True, stdout=subprocess.DEVNULL)
    parts = Processes(folder)
    try:
        for name, arguments in PARTS.items():
            parts.launch(name, [airflow, name, *arguments], around)
        tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda up: not up and all(map(parts.runs, PARTS))),
            stop=tenacity.stop_after_delay(SECONDS),
            wait=tenacity.wait_fixed(0.5),
            retry_error_callback=lambda _: None,
        )(is_up, url)
        if is_up(url):
            print(f"Airflow is at {url} (no password; on this machine only). Logs: {folder / 'logs'}. Ctrl-C ends it.")
            sys.stdout.flush()
            while all(map(parts.runs, PARTS)):
                signal.sigtimedwait((), 1)
        ended = [name for name in PARTS if not parts.runs(name)] or list(PARTS)
        print(f"{', '.join(ended)} did not start or ended; {parts.tail_of(ended[0])}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        parts.end(PARTS, signal.SIGTERM, 20)


if __name__ == "__main__":
    sys.exit(main())
