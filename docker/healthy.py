"""Whether the API server calls a component of Airflow healthy: ``healthy.py triggerer``; exit 1 if not."""

from __future__ import annotations

import json
import sys
import urllib.request

REPORT = "http://airflow-apiserver:8080/api/v2/monitor/health"


def main() -> int:
    """Ask the API server."""
    with urllib.request.urlopen(REPORT, timeout=8) as answer:
        report = json.load(answer)
    component = sys.argv[1]
    print(f"{component}: {report[component]}")
    return 0 if report[component]["status"] == "healthy" else 1


if __name__ == "__main__":
    sys.exit(main())
