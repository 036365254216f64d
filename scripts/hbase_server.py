"""A standalone HBase of one's own: ``make hbase`` starts one, the tests of the HBASE index run beside one.

    scripts/hbase_server.py start            start it (fetching its parts the first time), print host:port of Thrift
    scripts/hbase_server.py stop             stop it; what it holds stays for the next start
    scripts/hbase_server.py status           whether it runs; exit 1 if not
    scripts/hbase_server.py clean            stop it and remove what it holds
    scripts/hbase_server.py run -- COMMAND   run a command beside a fresh one, which goes with it
    scripts/hbase_server.py serve            stay in front until stopped (in a container)

Two processes: ZooKeeper, master and region server in one, the Thrift server in the other. Everything, logs included, is
below ``.hbase/`` (``--folder`` names another place). The command that is run finds the server by
``LAKEINDEX_HBASE_FOLDER``, ``LAKEINDEX_HBASE_HOST``, ``LAKEINDEX_HBASE_PORT`` and ``LAKEINDEX_HBASE_ZOOKEEPER_PORT``.

Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import string
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import hbase_parts
from scripts.ports import free_port

MASTER: Final = "org.apache.hadoop.hbase.master.HMaster"
THRIFT: Final = "org.apache.hadoop.hbase.thrift.ThriftServer"
HEAP: Final = {MASTER: "384m", THRIFT: "128m"}
START_SECONDS: Final = 180
STOP_SECONDS: Final = 60
_OPENS: Final = ("lang", "lang.reflect", "io", "net", "nio", "util", "util.concurrent")
JVM: Final = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENS),
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
]


class ServerError(Exception):
    """The server did not start; the message names the log."""


class HBaseServer:
    """One standalone HBase in a folder.

    HBase's own ZooKeeper listens on this machine only, so clients that find HBase through it (Hudi) must be here;
    those of the Thrift server need not.

    Args:
        folder: where its configuration, data and logs are.
        thrift_port: port of the Thrift server; 0: the one of its last start, else a free one.
        bind: address that Thrift listens on.
    """

    host: Final = "127.0.0.1"

    def __init__(self, folder: Path, *, thrift_port: int = 0, bind: str = "127.0.0.1") -> None:
        self.folder = folder.resolve()
        self.bind = bind
        self._state = self.folder / "server.json"
        known = json.loads(self._state.read_text()) if self._state.exists() else {}
        self.thrift_port: int = thrift_port or known.get("thrift_port") or free_port()
        self.zookeeper_port: int = known.get("zookeeper_port") or free_port()
        self._pids: dict[str, int] = known.get("pids", {})
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start what is not running and wait until a client gets an answer from the master.

        Raises:
            ServerError: a process ended, or no answer came in time.
            PartsError: its parts or a Java for them cannot be had.
        """
        jars, java = hbase_parts.fetch(), hbase_parts.java_home() / "bin" / "java"
        self._configure()
        if not self._runs(MASTER):
            self._launch(MASTER, java, jars, ["start"])
        self.start_thrift(java, jars)
        self._wait()

    def start_thrift(self, java: Path | None = None, jars: Path | None = None) -> None:
        """Start the Thrift server if it is not running; does not wait."""
        if not self._runs(THRIFT):
            java = java or hbase_parts.java_home() / "bin" / "java"
            arguments = ["start", "-p", str(self.thrift_port), "--bind", self.bind]
            self._launch(THRIFT, java, jars or hbase_parts.fetch(), arguments)

    def stop(self) -> None:
        """Stop it in peace, so that everything it holds is on the disk; kill what does not end in time."""
        for part in (THRIFT, MASTER):
            self._end(part, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a power cut does: what was not yet on the disk is lost."""
        for part in (THRIFT, MASTER):
            self._end(part, signal.SIGKILL)

    def kill_thrift(self) -> None:
        """End the Thrift server only: its clients lose their connections, the data are safe."""
        self._end(THRIFT, signal.SIGKILL)

    def clean(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        return self._runs(MASTER) and self._runs(THRIFT)

    def wait(self) -> None:
        """Block until one of its processes ends.

        Raises:
            ServerError: one ended.
        """
        while self.is_running:
            time.sleep(1)
        raise ServerError(f"a process of HBase ended; see {self.folder / 'logs'}")

    def log_of(self, part: str) -> Path:
        return self.folder / "logs" / f"{part.rsplit('.', 1)[1]}.log"

    def _configure(self) -> None:
        for name in ("conf", "data", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        values = {"data": str(self.folder / "data"), "host": self.host, "zookeeper_port": str(self.zookeeper_port)}
        template = string.Template((hbase_parts.RECIPE.folder / "hbase-site.xml").read_text())
        (self.folder / "conf" / "hbase-site.xml").write_text(template.substitute(values))
        shutil.copy(hbase_parts.RECIPE.folder / "log4j.properties", self.folder / "conf")

    def _launch(self, part: str, java: Path, jars: Path, arguments: list[str]) -> None:
        class_path = f"{self.folder / 'conf'}{os.pathsep}{jars}/*"
        command = [str(java), f"-Xmx{HEAP[part]}", *JVM, self._mark, "-cp", class_path, part, *arguments]
        with self.log_of(part).open("ab") as log:
            # A session of its own: an interrupt typed in the terminal is for the command beside it.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        self._children[process.pid] = process
        self._pids[part] = process.pid
        ports = {"thrift_port": self.thrift_port, "zookeeper_port": self.zookeeper_port}
        self._state.write_text(json.dumps({**ports, "pids": self._pids}))

    @property
    def _mark(self) -> str:
        """What tells our processes from a stranger that got one of their ids later."""
        return f"-Dlakeindex.hbase={self.folder}"

    def _runs(self, part: str) -> bool:
        pid = self._pids.get(part)
        if pid is None:
            return False
        if pid in self._children:
            return self._children[pid].poll() is None
        shown = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return self._mark in shown.stdout

    def _end(self, part: str, how: signal.Signals) -> None:
        if not self._runs(part):
            return
        os.kill(self._pids[part], how)
        deadline = time.monotonic() + STOP_SECONDS
        while self._runs(part):
            if time.monotonic() > deadline:
                os.kill(self._pids[part], signal.SIGKILL)
            time.sleep(0.1)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.host, self.thrift_port):
            for part in (MASTER, THRIFT):
                if not self._runs(part):
                    tail = self.log_of(part).read_text(errors="replace")[-2000:]
                    raise ServerError(f"{part} ended; the end of {self.log_of(part)}:\n{tail}")
            if time.monotonic() > deadline:
                raise ServerError(f"no answer in {START_SECONDS} s; see {self.folder / 'logs'}")
            time.sleep(0.25)


def answers(host: str, port: int, timeout: float = 10.0) -> bool:
    """Whether a Thrift client that asks for the tables' names gets them: then the master has finished its start.

    The question in Thrift's binary protocol: version 1 and "call", the method's name, a sequence number, no arguments.
    The answer is a reply (2) whose first field is a list (15) with the number 0, the result; else it is an exception.
    """
    name = b"getTableNames"
    question = struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">IB", 0, 0)
    wanted = struct.pack(">II", 0x80010002, len(name)) + name + struct.pack(">IBH", 0, 15, 0)
    got = b""
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(question)
            while len(got) < len(wanted):
                piece = connection.recv(len(wanted) - len(got))
                if not piece:
                    return False
                got += piece
    except OSError:
        return False
    return got == wanted


def run_beside(command: list[str], folder: Path | None) -> int:
    """Run a command beside a fresh server; its exit code. Logs of a failed run stay."""
    hbase_parts.RECIPE.home.mkdir(exist_ok=True)
    server = HBaseServer(folder or Path(tempfile.mkdtemp(prefix="run-", dir=hbase_parts.RECIPE.home)))
    code = 1
    try:
        server.start()
        env = {
            **os.environ,
            "LAKEINDEX_HBASE_FOLDER": str(server.folder),
            "LAKEINDEX_HBASE_HOST": server.host,
            "LAKEINDEX_HBASE_PORT": str(server.thrift_port),
            "LAKEINDEX_HBASE_ZOOKEEPER_PORT": str(server.zookeeper_port),
        }
        code = subprocess.run(command, env=env, check=False).returncode
    finally:
        # What the command restarted is found through the state file, not through our own children.
        HBaseServer(server.folder).kill()
        server.kill()
        if code == 0:
            server.clean()
        else:
            shutil.rmtree(server.folder / "data", ignore_errors=True)
            print(f"HBase: logs are in {server.folder / 'logs'}", file=sys.stderr)
    return code


def serve(server: HBaseServer) -> None:
    """Start and stay until a signal comes, then stop in peace.

    Raises:
        ServerError: it did not start, or a process ended.
    """

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        server.start()
        print(f"HBase: Thrift on {server.host}:{server.thrift_port}", flush=True)
        server.wait()
    finally:
        server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "stop", "status", "clean", "run", "serve"])
    parser.add_argument("--folder", type=Path, help="where it lives (default: .hbase/server; run: a new one)")
    parser.add_argument("--bind", default="127.0.0.1", help="address that Thrift listens on")
    parser.add_argument("--port", type=int, default=0, help="port of Thrift (default: the last one, else a free one)")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, command = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    try:
        if given.what == "run":
            return run_beside(command, given.folder)
        folder = given.folder or hbase_parts.RECIPE.home / "server"
        return _do(given.what, HBaseServer(folder, thrift_port=given.port, bind=given.bind))
    except (ServerError, hbase_parts.PartsError) as error:
        print(f"HBase: {error}", file=sys.stderr)
        return 1


def _do(what: str, server: HBaseServer) -> int:
    match what:
        case "start":
            server.start()
            print(f"{server.host}:{server.thrift_port}")
        case "serve":
            serve(server)
        case "stop":
            server.stop()
        case "clean":
            server.clean()
        case _:
            running = server.is_running and answers(server.host, server.thrift_port)
            print(f"{server.host}:{server.thrift_port}" if running else "HBase is not running")
            return 0 if running else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
