"""The library of loops: what counts as one, how it is made, and what doctor says without it."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakeindex.cli.doctor import CheckVerdict, check_loops
from lakeindex.hashing import compile_loops, loops

LIBRARY = compile_loops.library()


def test_a_walker_of_the_package_does_not_take_the_library_for_a_module() -> None:
    """As test runners, page makers and freezers of programs walk it: they import what they find."""
    assert LIBRARY.is_file()
    folder = compile_loops.SOURCE.parent
    assert {one.name for one in pkgutil.iter_modules([str(folder)])} == {
        path.stem for path in folder.glob("*.py") if path.stem != "__init__"
    }


@pytest.fixture(scope="module")
def compiler() -> None:
    if not compile_loops.compilers():
        pytest.skip("no C compiler: this checkout's library was made with one that went again")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the library is looked for; nothing is there."""
    path = tmp_path / LIBRARY.name
    monkeypatch.setattr(loops, "library", lambda: path)
    loops.loaded.cache_clear()
    yield path
    loops.loaded.cache_clear()


def test_what_is_no_library_of_these_loops_is_none(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = LIBRARY.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "is damaged: it has 0 bytes": b"",
        "is damaged: it has 9 bytes": whole[:9],
        "is damaged: its checksum": [
            whole[:middle],
            whole[:-1],
            whole[16:],
            whole + b"\0",
            whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            b"\0" * len(whole),
            whole[:-16] + whole[-4:] * 4,
        ],
    }
    for said, contents in damaged.items():
        for content in [contents] if isinstance(contents, bytes) else contents:
            elsewhere.write_bytes(content)
            loops.loaded.cache_clear()
            assert loops.loaded().functions is None
            assert said in loops.loaded().problem
    source = elsewhere.with_name("loops.c")
    source.write_bytes(compile_loops.SOURCE.read_bytes() + b"\n")
    elsewhere.write_bytes(whole)
    assert compile_loops.problem_with(elsewhere) == ""
    monkeypatch.setattr(compile_loops, "SOURCE", source)
    assert "was made from another loops.c" in compile_loops.problem_with(elsewhere)


def test_a_library_that_this_process_cannot_load_is_none(elsewhere: Path) -> None:
    """As one of another processor under this one's name: sealed, but no library here."""
    body = b"\x7fELF\x01" + bytes(200)
    source, crc = compile_loops.zlib.crc32(compile_loops.SOURCE.read_bytes()), compile_loops.zlib.crc32(body)
    elsewhere.write_bytes(body + compile_loops._SEAL.pack(compile_loops._MARK, source, crc))
    assert "cannot be loaded" in loops.loaded().problem


def test_doctor_says_which_form_runs_and_what_to_do(elsewhere: Path) -> None:
    other = elsewhere.with_name("loops.sunos5-sparc.so")
    other.write_bytes(b"")
    found = check_loops()
    assert found.verdict is CheckVerdict.WARN
    assert f"{elsewhere.name} cannot be read (No such file or directory); there is {other.name}" in found.found
    assert found.cure == loops.CURE
    shutil.copy(LIBRARY, elsewhere)
    loops.loaded.cache_clear()
    found = check_loops()
    assert (found.verdict, found.found) == (CheckVerdict.OK, f"compiled, {elsewhere}")


def alone(folder: Path, path: str, *, at_once: int = 1) -> list[tuple[int, str]]:
    """Exit code and words of the cure in a copy of the package without its library."""
    package = folder / "lakeindex" / "hashing"
    package.mkdir(parents=True, exist_ok=True)
    (folder / "lakeindex" / "__init__.py").touch()
    for name in ("__init__.py", "compile_loops.py", "loops.c"):
        shutil.copy(compile_loops.SOURCE.with_name(name), package / name)
    env = {"PYTHONPATH": str(folder), "PATH": path, "HOME": str(folder)}
    command = [sys.executable, "-m", "lakeindex.hashing.compile_loops"]
    started = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(at_once)
    ]
    said = [process.communicate()[0] for process in started]
    return [(process.returncode, words) for process, words in zip(started, said, strict=True)]


@pytest.mark.usefixtures("compiler")
@pytest.mark.few(0)
def test_two_processes_make_it_at_once_and_a_change_of_the_source_makes_it_anew(tmp_path: Path) -> None:
    assert [code for code, _ in alone(tmp_path, os.environ["PATH"], at_once=2)] == [0, 0]
    package = tmp_path / "lakeindex" / "hashing"
    assert sorted(one.name for one in package.glob("*loops.*-*")) == [LIBRARY.name]
    made = package / LIBRARY.name
    assert compile_loops.problem_with(made) == ""
    assert made.stat().st_mode & 0o555 == 0o555
    before = made.stat().st_mtime_ns
    assert alone(tmp_path, os.environ["PATH"]) == [(0, "")]
    assert made.stat().st_mtime_ns == before
    made.write_bytes(made.read_bytes()[:-1])
    ((code, words),) = alone(tmp_path, os.environ["PATH"])
    assert (code, words.startswith(f"{LIBRARY.name} made with ")) == (0, True)
    assert compile_loops.problem_with(made) == ""


def test_without_a_compiler_it_says_what_is_missing(tmp_path: Path) -> None:
    if [command for command in compile_loops.compilers() if "ziglang" in command]:
        pytest.skip("ziglang is installed here")
    ((code, words),) = alone(tmp_path, str(tmp_path))
    assert code == 1
    assert words == f"{LIBRARY.name} was not made: no C compiler: neither cc on PATH nor the package ziglang\n"


@pytest.mark.usefixtures("compiler")
def test_a_source_that_does_not_compile_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, path = tmp_path / "loops.c", tmp_path / LIBRARY.name
    wrong.write_text("int x = ;")
    path.write_bytes(b"before")
    monkeypatch.setattr(compile_loops, "SOURCE", wrong)
    with pytest.raises(RuntimeError, match="error"):
        compile_loops.make(path)
    assert path.read_bytes() == b"before"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["loops.c", LIBRARY.name]


def test_the_set_up_makes_it_once_and_says_what_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler, path = tmp_path / "compiler.py", tmp_path / LIBRARY.name
    compiler.write_text("import sys; open(sys.argv[sys.argv.index('-o') + 1], 'wb').write(b'code')")
    monkeypatch.setenv("CC", f"{sys.executable} {compiler}")
    monkeypatch.setattr(compile_loops, "library", lambda: path)
    compile_loops.main()
    assert capsys.readouterr().out.startswith(f"{LIBRARY.name} made with {sys.executable}")
    assert compile_loops.problem_with(path) == ""
    compile_loops.main()
    assert capsys.readouterr().out == ""
    path.unlink()
    compiler.write_text("import sys; sys.exit('no memory')")
    monkeypatch.setattr(compile_loops, "_ZIG", "no_package_of_this_name")
    with pytest.raises(SystemExit, match=f"{LIBRARY.name} was not made: .*no memory"):
        compile_loops.main()
    monkeypatch.setenv("CC", str(tmp_path / "none"))
    with pytest.raises(SystemExit, match="no C compiler"):
        compile_loops.main()
    assert not path.exists()
