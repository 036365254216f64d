"""Chromium for the browser tests: the one on PATH; else installed, which takes root on Debian or Ubuntu.

scripts/browser.py     print its path; install it first if it is not there
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """Path of Chromium; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def ensure() -> str:
    """Path of Chromium, installed if need be. Exits with what to install if that is not possible here."""
    there = find()
    if there is not None:
        return there
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(
            "no Chromium: install the package `chromium` (Debian: apt-get install chromium, as root), or put it on PATH"
        )
    for words in (("update",), ("install", "-y", "--no-install-recommends", "chromium")):
        subprocess.run(
            ["apt-get", "-q", *words],
            check=True,
            stdout=sys.stderr,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )
    return find() or sys.exit("apt-get installed the package chromium, but there is no `chromium` on PATH")


if __name__ == "__main__":
    print(ensure())
