"""Run a command beside Azurite, Azure's own emulator of its blob store: ``scripts/azure_server.py -- pytest -m azure``.

Azurite comes from the npm registry into ``.azurite/``, so Node and npm must be there. The command finds it by
``LAKEINDEX_AZURE_CONTAINER`` and the usual Azure variables; the account and its key are the emulator's published ones.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import requests
import tenacity

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.ports import free_port  # noqa: E402 - found through the line above
from scripts.s3_server import run_beside  # noqa: E402 - as above

HOME: Final = ROOT / ".azurite"
RELEASE: Final = "azurite@3.35.0"
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONTAINER: Final = "lake"
_VERSION: Final = "2021-08-06"
_START_SECONDS: Final = 60


def program() -> Path:
    """Azurite's blob server, installed if it is not there."""
    found = HOME / "node_modules" / ".bin" / "azurite-blob"
    if not found.exists():
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("Azurite needs Node and npm (Debian: apt-get install npm)")
        print(f"installing {RELEASE} into {HOME.name}/", flush=True)
        HOME.mkdir(exist_ok=True)
        command = [npm, "install", "--prefix", str(HOME), "--no-audit", "--no-fund", "--loglevel=error", RELEASE]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return found


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(requests.RequestException),
    stop=tenacity.stop_after_delay(_START_SECONDS),
    wait=tenacity.wait_fixed(0.3),
    reraise=True,
)
def make_container(endpoint: str) -> None:
    """Create the container, waiting for the server to answer.

    The one call that obstore has no function for, signed as Azure's "Shared Key" says: method, twelve headers that are
    not sent, the ``x-ms-`` headers, the resource (with the account twice, as an emulator's path has it) and the query.
    """
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    signed = ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{_VERSION}"]
    signed += [f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}", "restype:container"]
    digest = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    answer = requests.put(f"{endpoint}/{CONTAINER}", params={"restype": "container"}, headers=headers, timeout=10)
    answer.raise_for_status()


def main() -> int:
    command = sys.argv[sys.argv.index("--") + 1 :]
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    env = {
        **os.environ,
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": endpoint,
        "LAKEINDEX_AZURE_CONTAINER": CONTAINER,
    }
    with tempfile.TemporaryDirectory(prefix="lakeindex-azure-") as data:
        start = [str(program()), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", data]
        start += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        return run_beside(start, lambda: make_container(endpoint), command, env)


if __name__ == "__main__":
    sys.exit(main())
