"""A container engine with compose v2 for one command: this machine's, or podman with stand-in base images.

    scripts/container_engine.py run -- COMMAND    COMMAND with `docker compose` at work; ends what was started for it

Where `docker info` answers, that engine is taken, and images come from their registries. Else, on Debian as root:
podman and runc from its packages, compose's plugin from the package of a later Debian, and images of the same names
made of Debian's packages (``scripts/containers``), for machines that reach package registries but no registry of
images. They stay in podman's store, so that the next time is short. ``LAKEINDEX_CONTAINERS`` names the folder
for the rest.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import requests

HERE: Final = Path(__file__).with_name("containers")
PACKAGES: Final = ("podman", "runc", "netavark", "aardvark-dns", "iptables", "debootstrap", "catatonit")
RELEASE: Final = "bookworm"
COMPOSE_RELEASE: Final = "trixie"
"""The Debian whose compose plugin is taken: bookworm has none."""
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
HEALTH_SECONDS: Final = 5
START_SECONDS: Final = 30
_DEBIAN: Final = "lakeindex-debootstrap:bookworm-slim"
_NOT_NEEDED: Final = ("doc", "info", "locale", "man")
_APT_KEEPS_NOTHING: Final = """\
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/archives/partial/*.deb /var/cache/apt/*.bin"; };
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
"""
_NOT_COPIED: Final = shutil.ignore_patterns("test", "__pycache__", "*.a", "site-packages")


class EngineError(RuntimeError):
    """No engine can be had here; the message says what is missing."""


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """The environment in which `docker compose` works.

    Raises:
        EngineError: no engine can be had here.
    """
    if _answers(os.environ):
        yield dict(os.environ)
        return
    podman = Podman(
        Path(os.environ.get("LAKEINDEX_CONTAINERS") or Path(tempfile.gettempdir()) / "lakeindex-containers")
    )
    podman.install()
    podman.make_images()
    with podman.serving():
        yield podman.env


def _answers(env: Mapping[str, str]) -> bool:
    """Whether an engine and compose v2 answer in an environment."""
    if shutil.which("docker") is None:
        return False
    asked = (["docker", "info"], ["docker", "compose", "version"])
    return all(subprocess.run(words, env=env, capture_output=True, check=False).returncode == 0 for words in asked)


class Podman:
    """Podman behind the interface of Docker.

    Args:
        folder: for its socket, compose's plugin, logs, and what images are made of.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "docker"
        socket = f"unix://{folder}/podman.sock"
        told = {"CONTAINERS_CONF": str(HERE / "containers.conf"), "DOCKER_CONFIG": str(self.config)}
        # its service knows the classic builder only
        self.env = {**os.environ, **told, "DOCKER_HOST": socket, "DOCKER_BUILDKIT": "0"}

    def install(self) -> None:
        """Podman and compose's plugin, where they are missing.

        Raises:
            EngineError: not on Debian, not as root, or there is no `docker` command.
        """
        if shutil.which("docker") is None:
            raise EngineError(
                "no container engine: install Docker with compose v2, or the command line of Docker for podman"
            )
        if any(shutil.which(one) is None for one in ("podman", "runc", "debootstrap", "catatonit")):
            if shutil.which("apt-get") is None or os.geteuid() != 0:
                raise EngineError("no container engine answers, and podman can be installed on Debian as root only")
            for words in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
                self._run("apt-get", "--quiet", *words, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        self.config.mkdir(parents=True, exist_ok=True)
        (self.config / "config.json").write_text("{}")  # podman looks for it where DOCKER_CONFIG says
        plugin = self.config / "cli-plugins" / "docker-compose"
        if not plugin.exists():
            self._fetch_compose(plugin)

    def make_images(self) -> None:
        """The base images that the checkout's Dockerfiles and compose file name, where they are missing."""
        self._base()
        python = _python312()
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            context = Path(name)
            certificates = context / "certificates"
            certificates.mkdir()
            for number, text in enumerate(_certificates()):
                (certificates / f"{number:03d}.crt").write_text(text)
            self._image("debian:bookworm-slim", "debian", context)
            if python is not None and not self._has("python:3.12-slim-bookworm"):
                for part in ("bin", "include", "lib"):
                    shutil.copytree(python / part, context / "python" / part, symlinks=True, ignore=_NOT_COPIED)
            self._image("python:3.12-slim-bookworm", "python" if python else "python-of-debian", context)
            if not self._has("golang:1.26-bookworm"):
                root = subprocess.run(
                    ["go", "env", "GOROOT"], capture_output=True, text=True, check=True
                ).stdout.strip()
                shutil.copytree(root, context / "go", symlinks=True, ignore=shutil.ignore_patterns("test"))
            self._image("golang:1.26-bookworm", "golang", context)
            shutil.copy(HERE / "postgres.sh", context)
            self._image("postgres:16", "postgres", context)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Docker's interface on a socket, and health checks, which podman leaves to systemd."""
        (self.folder / "podman.sock").unlink(missing_ok=True)
        over = threading.Event()
        with (self.folder / "service.log").open("ab") as log:
            words = ["podman", "system", "service", "--time", "0", self.env["DOCKER_HOST"]]
            service = subprocess.Popen(words, env=self.env, stdout=log, stderr=log)
        checks = threading.Thread(target=self._check_health, args=(over,), daemon=True)
        try:
            for _ in range(START_SECONDS * 2):
                if _answers(self.env) or service.poll() is not None:
                    break
                over.wait(0.5)
            if service.poll() is not None or not _answers(self.env):
                raise EngineError(f"podman's service, or compose, does not answer: see {self.folder / 'service.log'}")
            checks.start()
            yield
        finally:
            over.set()
            service.terminate()
            service.wait(60)

    def _check_health(self, over: threading.Event) -> None:
        while not over.wait(HEALTH_SECONDS):
            listed = subprocess.run(
                ["podman", "ps", "--quiet"], env=self.env, capture_output=True, text=True, check=False
            )
            for container in listed.stdout.split():
                if over.is_set():
                    return
                words = ["timeout", "20", "podman", "healthcheck", "run", container]
                subprocess.run(words, env=self.env, capture_output=True, check=False)

    def _fetch_compose(self, plugin: Path) -> None:
        mirror = _mirror()
        index = lzma.decompress(_get(f"{mirror}/dists/{COMPOSE_RELEASE}/main/binary-amd64/Packages.xz")).decode()
        entry = next(one for one in index.split("\n\n") if one.startswith("Package: docker-compose\n"))
        told = dict(line.split(": ", 1) for line in entry.splitlines() if re.match(r"(Filename|SHA256): ", line))
        package = _get(f"{mirror}/{told['Filename']}")
        if hashlib.sha256(package).hexdigest() != told["SHA256"]:
            raise EngineError(f"{told['Filename']} is not what its index says: fetch it again")
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            file = Path(name) / "compose.deb"
            file.write_bytes(package)
            self._run("dpkg", "--extract", str(file), name)
            plugin.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(next(Path(name).glob("**/cli-plugins/docker-compose")), plugin)  # others are for shells

    def _base(self) -> None:
        if self._has(_DEBIAN):
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            root = Path(name) / "root"
            self._run("debootstrap", "--variant=minbase", RELEASE, str(root), _mirror())
            _slim(root)
            archive = Path(name) / "root.tar"
            self._run("tar", "--directory", str(root), "--create", "--file", str(archive), ".")
            self._run("podman", "import", "--quiet", str(archive), f"localhost/{_DEBIAN}")

    def _has(self, image: str) -> bool:
        words = ["podman", "image", "exists", f"localhost/{image}"]
        return subprocess.run(words, env=self.env, check=False).returncode == 0

    def _image(self, image: str, recipe: str, context: Path) -> None:
        if not self._has(image):
            file = str(HERE / f"{recipe}.Dockerfile")
            words = ["podman", "build", "--quiet", "--network", "host", "--tag", f"localhost/{image}"]
            self._run(*words, "--file", file, str(context))

    def _run(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        subprocess.run(words, env=env or self.env, check=True, stdout=sys.stderr)


def _slim(root: Path) -> None:
    """As Debian's own slim images are: no package keeps its documentation, and apt keeps neither packages nor lists."""
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text("".join(f"path-exclude /usr/share/{one}/*\n" for one in _NOT_NEEDED))
    (root / "etc/apt/apt.conf.d/slim").write_text(_APT_KEEPS_NOTHING)
    for one in _NOT_NEEDED:
        shutil.rmtree(root / "usr/share" / one, ignore_errors=True)
    for folder in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir()


def _mirror() -> str:
    """Debian's own address in apt's sources."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for file in places:
        text = file.read_text() if file.is_file() else ""
        found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(\S+/debian)/?(?:\s|$)", text, re.MULTILINE)
        if found:
            return found[1]
    raise EngineError("no mirror of Debian in apt's sources: /etc/apt/sources.list names none")


def _get(address: str) -> bytes:
    answer = requests.get(address, timeout=120)
    answer.raise_for_status()
    return answer.content


def _certificates() -> list[str]:
    text = CERTIFICATES.read_text() if CERTIFICATES.exists() else ""
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", text, re.DOTALL)


def _python312() -> Path | None:
    """Where a Python 3.12 of this machine is that can be copied: one with its library in its own folder."""
    program = shutil.which("python3.12")
    places = [*sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.12.*"))]
    for path in [Path(program)] if program else []:
        asked = subprocess.run(
            [path, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=False
        )
        places += [Path(asked.stdout.strip())] if asked.returncode == 0 else []
    return next(
        (one for one in places if one not in (Path("/usr"), Path("/")) and (one / "bin/python3.12").exists()), None
    )


def main() -> int:
    """Run a command with an engine; its exit code, 2 if there is no engine."""
    if sys.argv[1:3] != ["run", "--"] or len(sys.argv) == 3:
        sys.exit(__doc__)
    try:
        with engine() as env:
            return subprocess.run(sys.argv[3:], env=env, check=False).returncode
    except EngineError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
