"""The topology of docker-compose.yaml as local processes, for a machine without a container engine: ``make cluster``.

    scripts/cluster.py start            start what is not running, wait until all of it is healthy, print where it is
    scripts/cluster.py stop             stop it; what it holds stays for the next start
    scripts/cluster.py status           health of each service; exit 1 if one is not healthy
    scripts/cluster.py clean            stop it and remove what it holds
    scripts/cluster.py exec -- COMMAND  run a command in the environment of the one that is up
    scripts/cluster.py run -- COMMAND   run a command beside a fresh one, which goes with it

Airflow's api-server, scheduler, dag-processor and triggerer on PostgreSQL, a Spark master and a worker, an
S3-compatible store with the bucket ``lake``; with ``--hbase`` an HBase. Everything, logs included, is below
``.cluster/server`` (``--folder`` names another place), and listens on 127.0.0.1 only, on ports that follow each
other from ``--base-port``.
"""

from __future__ import annotations

import argparse
import base64
import json
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

import tenacity

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from scripts import hbase_parts, postgres_parts  # noqa: E402 - found through the line above, whoever imports this
from scripts.cluster_processes import Processes  # noqa: E402 - as above
from scripts.cluster_services import AIRFLOW, BUCKET, HOST, PORT_NAMES, Layout, Service, services  # noqa: E402 - as above
from scripts.hbase_server import HBaseServer, ServerError  # noqa: E402 - as above

HOME: Final = ROOT / ".cluster"
BASE_PORT: Final = 8480
START_SECONDS: Final = 240
STOP_SECONDS: Final = 30


class ClusterError(Exception):
    """The cluster did not start; the message names the log."""


class Cluster:
    """One cluster in a folder.

    Args:
        base_port: first of its ports; default: the one of its last start, else :data:`BASE_PORT`.
        hbase: with an HBase; one that was started once belongs to the cluster.
    """

    def __init__(self, folder: Path, *, base_port: int = 0, hbase: bool = False) -> None:
        self.folder = folder.resolve()
        self._file = self.folder / "cluster.json"
        known = json.loads(self._file.read_text()) if self._file.exists() else {}
        self.layout = Layout(
            folder=self.folder,
            base_port=base_port or known.get("base_port") or BASE_PORT,
            password=known.get("password") or secrets.token_hex(16),
            fernet_key=known.get("fernet_key") or base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        )
        self.processes = Processes(self.folder)
        self.services = {service.name: service for service in services(self.layout)}
        has_hbase = hbase or (self.folder / "hbase").exists()
        self.hbase = HBaseServer(self.folder / "hbase", thrift_port=self.layout.port("hbase")) if has_hbase else None

    def start(self) -> None:
        """Start what is not running and wait until all of it is healthy.

        Raises:
            ClusterError: a port is taken, a process ended, or one is not healthy in time.
            PartsError: PostgreSQL or HBase cannot be had.
            ServerError: HBase did not start.
        """
        self._check_ports()
        self._save()
        before = [name for name in self.services if name not in AIRFLOW]
        for name in before:
            self.launch(name)
        if self.hbase:
            self.hbase.start()
        self.wait("postgres")
        self._migrate()
        for name in AIRFLOW:
            self.launch(name)
        for name in self.services:
            self.wait(name)

    def launch(self, name: str) -> None:
        """Start one service if it is not running; does not wait."""
        service = self.services[name]
        if not self.processes.runs(name):
            env = {**self.environment(), **service.more_env}
            self.processes.launch(name, service.command(), env, **service.start_as)

    def wait(self, name: str) -> None:
        """Wait until one service is healthy.

        Raises:
            ClusterError: it ended, or is not healthy in time.
        """
        waiting = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda healthy: not healthy),
            stop=tenacity.stop_after_delay(START_SECONDS),
            wait=tenacity.wait_fixed(0.5),
        )
        try:
            waiting(self._is_healthy, self.services[name])
        except tenacity.RetryError:
            tail = self.processes.tail_of(name)
            raise ClusterError(f"{name} is not healthy after {START_SECONDS} s; {tail}") from None

    def kill(self, name: str) -> None:
        """End one service and all it started at once, as a power cut does."""
        self.processes.end([name], signal.SIGKILL, 0)

    def stop(self) -> None:
        """Stop all in peace, those that use others first; kill what does not end in time."""
        self._end(AIRFLOW)
        rest = [service.name for service in self.services.values() if service.name not in AIRFLOW]
        for name in reversed(rest):
            self._end([name])
        if self.hbase:
            self.hbase.stop()

    def clean(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def health(self) -> dict[str, bool]:
        found = {name: self.processes.runs(name) and one.is_healthy() for name, one in self.services.items()}
        return {**found, "hbase": self.hbase.is_running} if self.hbase else found

    def environment(self) -> dict[str, str]:
        hbase = {"LAKEINDEX_HBASE_HOST": HOST, "LAKEINDEX_HBASE_PORT": str(self.layout.port("hbase"))}
        return {**self.layout.environment(), **(hbase if self.hbase else {})}

    def _is_healthy(self, service: Service) -> bool:
        if not self.processes.runs(service.name):
            raise ClusterError(f"{service.name} ended; {self.processes.tail_of(service.name)}")
        return service.is_healthy()

    def _end(self, names: Iterable[str]) -> None:
        names = list(names)
        self.processes.end(names, self.services[names[0]].stop, STOP_SECONDS)

    def _migrate(self) -> None:
        """Airflow's tables, made or brought up to date."""
        log = self.processes.log_of("migrate")
        command = [str(Path(sys.executable).parent / "airflow"), "db", "migrate"]
        with log.open("ab") as output:
            done = subprocess.run(command, env=self.environment(), stdout=output, stderr=output, check=False)
        if done.returncode:
            raise ClusterError(f"airflow db migrate ended with {done.returncode}; {self.processes.tail_of('migrate')}")

    def _check_ports(self) -> None:
        if any(self.processes.runs(name) for name in self.services):
            return  # it is up, in parts at least: the ports are its own
        for name in PORT_NAMES:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, self.layout.port(name)))
                except OSError:
                    port = self.layout.port(name)
                    raise ClusterError(f"port {port} ({name}) is taken: give another --base-port") from None

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        known = {name: value for name, value in asdict(self.layout).items() if name != "folder"}
        self._file.touch(mode=0o600)
        self._file.write_text(json.dumps(known))


def run_beside(command: list[str], folder: Path | None, base_port: int, *, hbase: bool) -> int:
    """Run a command beside a fresh cluster; its exit code. Logs of a failed run stay."""
    HOME.mkdir(exist_ok=True)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=HOME))
        folder.chmod(0o755)  # PostgreSQL runs as another user than root
    cluster, code = Cluster(folder, base_port=base_port, hbase=hbase), 1
    try:
        cluster.start()
        code = subprocess.run(command, env=cluster.environment(), check=False).returncode
    finally:
        if code == 0:
            cluster.clean()
        else:
            cluster.stop()
            print(f"cluster: logs are in {folder / 'logs'} and {folder / 'airflow/logs'}", file=sys.stderr)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "stop", "status", "clean", "exec", "run"])
    parser.add_argument("--folder", type=Path, help="where it lives (default: .cluster/server; run: a new one)")
    parser.add_argument(
        "--base-port", type=int, default=0, help=f"first port (default: the last one, else {BASE_PORT})"
    )
    parser.add_argument("--hbase", action="store_true", help="with an HBase")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # leave through finally
    try:
        if given.what == "run":
            return run_beside(command, given.folder, given.base_port, hbase=given.hbase)
        cluster = Cluster(given.folder or HOME / "server", base_port=given.base_port, hbase=given.hbase)
        if given.what == "exec":
            return subprocess.run(command, env=cluster.environment(), check=False).returncode
        return _do(given.what, cluster)
    except (ClusterError, ServerError, postgres_parts.PartsError, hbase_parts.PartsError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


def _do(what: str, cluster: Cluster) -> int:
    match what:
        case "start":
            cluster.start()
            _say_where(cluster)
        case "stop":
            cluster.stop()
        case "clean":
            cluster.clean()
        case _:
            health = cluster.health()
            for name, healthy in health.items():
                print(f"{name:14} {'healthy' if healthy else 'not healthy'}")
            return 0 if all(health.values()) else 1
    return 0


def _say_where(cluster: Cluster) -> None:
    layout = cluster.layout
    print(f"Airflow   {layout.url('airflow')}")
    print(f"Spark     {layout.url('spark-ui')}, spark://{HOST}:{layout.port('spark')}")
    print(f"S3        {layout.url('s3')}, bucket {BUCKET}")
    if cluster.hbase:
        print(f"HBase     {HOST}:{layout.port('hbase')} (Thrift)")
    print(f"logs      {cluster.folder / 'logs'}")
    print("scripts/cluster.py exec -- COMMAND runs a command of lakeindex or Airflow on it")


if __name__ == "__main__":
    sys.exit(main())
