"""Throw-away copies of the checkout, in which a bug can be put and its tests run."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lakeindex.hashing import compile_loops
from tests.mutants.seeds import LIBRARY, ROOT, Mutant

_Bug = TypeVar("_Bug", bound=Mutant)
_R = TypeVar("_R")
SHARED = (".venv", ".java", ".uv")
"""Folders of the checkout that a copy links to."""
OF_A_TREE = frozenset({"PYTHONPATH", "LAKEINDEX_HOME", "AIRFLOW_HOME", "AIRFLOW__CORE__DAGS_FOLDER"})
"""Variables that say where a checkout is."""
PASSED, FAILED = 0, 1


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended: pytest's exit code, or ``None`` if its time ran out; its last lines."""

    code: int | None
    said: str

    @property
    def judged(self) -> tuple[str, str]:
        """``caught``, ``survived`` or ``broken`` (nothing could be collected), and by which test, or what was said."""
        if self.code == PASSED:
            return "survived", ""
        if self.code is None:
            return "caught", "(did not end)"
        failed = [line for line in self.said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if self.code == FAILED and failed and "error during collection" not in self.said:
            return "caught", failed[0].split(" - ")[0]
        return "broken", self.said[-500:]


class Tree:
    """A copy of the checkout. Its tests import the library from the copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        shutil.copy2(compile_loops.library(), folder / compile_loops.library().relative_to(ROOT))
        # Compiled code goes along: with the same times of the sources, it is valid in the copy.
        for cached in (ROOT / LIBRARY).rglob("__pycache__/*"):
            target = folder / cached.relative_to(ROOT)
            if target.parents[1].is_dir():  # else its package is gone
                target.parent.mkdir(exist_ok=True)
                shutil.copy2(cached, target)
        for name in SHARED:
            if (ROOT / name).exists():
                (folder / name).symlink_to(ROOT / name)
        self._environment = self._found_environment()
        self._server: subprocess.Popen[str] | None = None

    def _found_environment(self) -> dict[str, str]:
        """What ``scripts/env.py`` makes of this process's environment for the copy."""
        bare = {name: value for name, value in os.environ.items() if name not in OF_A_TREE}
        show = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
        command = [sys.executable, "scripts/env.py", "run", "--", *show]
        done = subprocess.run(command, cwd=self.folder, env=bare, capture_output=True, text=True, check=True)
        found: dict[str, str] = json.loads(done.stdout)
        return {**found, "HYPOTHESIS_PROFILE": "mutants"}

    @contextmanager
    def with_bug(self, mutant: Mutant) -> Iterator[None]:
        """Put the bug in."""
        path = mutant.path(self.folder)
        before, times = path.read_text(), path.stat()
        path.write_text(mutant.apply(before))
        try:
            self._compile(path)
            yield
        finally:
            path.write_text(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            self._compile(path)

    def _compile(self, path: Path) -> None:
        """Make the library of loops anew, if they were changed."""
        if path.suffix == ".c":
            subprocess.run([sys.executable, path.with_name("compile_loops.py")], check=True, stdout=subprocess.DEVNULL)

    def run(self, targets: Sequence[str], seconds: float, *, first: bool) -> Outcome:
        """Run tests; ``first``: only until one fails."""
        if self._server is None:
            command = [sys.executable, "-m", "tests.mutants.serving"]
            self._server = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        arguments = [
            *targets,
            "-q",
            "--tb=line",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            *(["-x"] if first else []),
        ]
        for plugin in ("cacheprovider", "xdist"):
            arguments += ["-p", f"no:{plugin}"]
        request = {"arguments": arguments, "seconds": seconds}
        asked, answers = self._server.stdin, self._server.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps(request) + "\n")
        asked.flush()
        answer = json.loads(answers.readline())
        return Outcome(answer["code"], answer["said"])

    def close(self) -> None:
        """End its server."""
        if self._server is not None:
            self._server.communicate()


def on_each(
    places: Sequence[Tree], todo: Iterable[_Bug], work: Callable[[_Bug, Tree], _R]
) -> Iterator[tuple[_Bug, _R]]:
    """What comes of a piece of work on each bug, in a copy of the checkout that nobody else has meanwhile; in order."""
    free: queue.Queue[Tree] = queue.Queue()
    for place in places:
        free.put(place)

    def alone(bug: _Bug) -> tuple[_Bug, _R]:
        place = free.get()
        try:
            return bug, work(bug, place)
        finally:
            free.put(place)

    with ThreadPoolExecutor(len(places)) as pool:
        yield from pool.map(alone, todo)


@contextmanager
def trees(count: int) -> Iterator[list[Tree]]:
    """So many copies, removed in the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = [Tree(Path(folder) / str(number)) for number in range(count)]
        try:
            yield made
        finally:
            for one in made:
                one.close()
