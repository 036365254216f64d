"""Run a command beside an S3 server in a process of its own: ``scripts/s3_server.py -- pytest -m s3``.

The server is versitygw, built from the Go module proxy into ``.s3/`` where a Go toolchain is there; elsewhere moto's
server. The command finds it by ``LAKEINDEX_S3_ENDPOINT``, ``LAKEINDEX_S3_BUCKET`` and the usual AWS variables.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import boto3
import tenacity
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.ports import free_port  # noqa: E402 - found through the line above, whoever imports this

GATEWAY: Final = "github.com/versity/versitygw/cmd/versitygw@latest"
KEY, SECRET, BUCKET = "lakeindex", "lakeindex-secret", "lakeindex"
_START_SECONDS: Final = 60


def gateway() -> Path | None:
    """The versitygw binary, built if it is not there; None where it cannot be built."""
    binary = ROOT / ".s3" / "versitygw"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        return None
    built = subprocess.run([go, "install", GATEWAY], env={**os.environ, "GOBIN": str(binary.parent)}, check=False)
    return binary if built.returncode == 0 else None


def server_command(port: int, data: Path) -> list[str]:
    binary = gateway()
    if binary is not None:
        print("S3 server: versitygw", flush=True)
        return [str(binary), "--port", f"127.0.0.1:{port}", "posix", str(data)]
    print("S3 server: moto (no Go toolchain to build versitygw)", flush=True)
    return [str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)]


@tenacity.retry(
    retry=tenacity.retry_if_exception_type((BotoCoreError, ClientError)),
    stop=tenacity.stop_after_delay(_START_SECONDS),
    wait=tenacity.wait_fixed(0.2),
    reraise=True,
)
def make_bucket(endpoint: str) -> None:
    """Create the bucket, waiting for the server to answer."""
    client = boto3.client("s3", endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 1}))
    client.create_bucket(Bucket=BUCKET)


def run_beside(server: list[str], ready: Callable[[], None], command: list[str], env: Mapping[str, str]) -> int:
    """Start a server, wait until it is ready, run a command, stop the server; the command's exit code."""
    process = subprocess.Popen(server, env=env, stdout=subprocess.DEVNULL)
    try:
        ready()
        return subprocess.run(command, env=env, check=False).returncode
    finally:
        process.terminate()
        process.wait(timeout=30)


def main() -> int:
    """Start the server, run the command, stop the server; the command's exit code."""
    command = sys.argv[sys.argv.index("--") + 1 :]
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    env = {
        **os.environ,
        "ROOT_ACCESS_KEY": KEY,
        "ROOT_SECRET_KEY": SECRET,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "LAKEINDEX_S3_ENDPOINT": endpoint,
        "LAKEINDEX_S3_BUCKET": BUCKET,
    }
    os.environ.update(env)
    with tempfile.TemporaryDirectory(prefix="lakeindex-s3-") as data:
        return run_beside(server_command(port, Path(data)), lambda: make_bucket(endpoint), command, env)


if __name__ == "__main__":
    sys.exit(main())
