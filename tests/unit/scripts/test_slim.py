"""What the image of the cluster does without."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import struct
import zipfile
from pathlib import Path

import pytest
import yaml._yaml

program = runpy.run_path(str(Path(__file__).resolve().parents[3] / "docker" / "slim.py"))
slim = program["slim"]
LIBRARY = Path(yaml._yaml.__file__)
STRIP = shutil.which("strip")
with_strip = pytest.mark.skipif(STRIP is None, reason="no binutils, which the image installs for this")
JARS = (
    *("kubernetes-client-7.jar", "spark-kubernetes_2.13-4.jar", "hive-metastore-2.jar", "derby-10.jar"),
    *("breeze_2.13-2.jar", "spark-mllib-local_2.13-4.jar", "JTransforms-3.jar"),
)
KEPT = ("hive-storage-api-2.jar", "spark-sql_2.13-4.jar", "jackson-core-2.jar", "log4j-core-2.jar")
NATIVE = ("librocksdbjni-linux64.so", "librocksdbjni-osx-arm64.jnilib", "win/amd64/x.dll", "Linux/x86_64/x.so")


def jar(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as made:
        for name in ("META-INF/MANIFEST.MF", *names):
            made.writestr(name, name * 100)


def test_what_no_service_uses_goes_and_the_rest_stays(tmp_path: Path) -> None:
    jars = tmp_path / "pyspark" / "jars"
    for name in (*JARS, *KEPT):
        jar(jars / name)
    jar(jars / "rocksdbjni-9.jar", "org/rocksdb/RocksDB.class", *NATIVE)
    jar(jars / "netty-9.jar", "META-INF/native/libnetty_epoll.so")  # of one processor, which its name does not say
    for name in (
        "pyarrow/include/a.h",
        "pyarrow/libarrow_flight.so.26",
        "pandas/tests/x/t.py",
        "numpy/_core/tests/t.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("12345")
    (tmp_path / "pyarrow" / "libarrow.so.26").write_text("1")
    if STRIP:
        shutil.copy(LIBRARY, tmp_path)

    freed = slim(tmp_path, "x86_64")

    assert sorted(path.name for path in jars.iterdir()) == sorted((*KEPT, "rocksdbjni-9.jar", "netty-9.jar"))
    with zipfile.ZipFile(jars / "rocksdbjni-9.jar") as left:
        names = ["META-INF/MANIFEST.MF", "org/rocksdb/RocksDB.class", NATIVE[0], NATIVE[3]]
        assert {name: left.read(name).decode() for name in left.namelist()} == {name: name * 100 for name in names}
    assert zipfile.ZipFile(jars / "netty-9.jar").namelist()[1] == "META-INF/native/libnetty_epoll.so"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.suffix in (".h", ".py")) == []
    assert (tmp_path / "pyarrow" / "libarrow.so.26").exists()
    assert freed["tests of packages"] == 10
    assert [what for what, count in freed.items() if not count] == ([] if STRIP else ["symbols for debuggers"])
    assert set(slim(tmp_path, "x86_64").values()) == {0}


@with_strip
def test_a_library_without_symbols_still_loads(tmp_path: Path) -> None:
    library = Path(shutil.copy(LIBRARY, tmp_path))
    freed = program["without_symbols"](library)
    assert freed == LIBRARY.stat().st_size - library.stat().st_size > 0
    assert [one.name for one in tmp_path.iterdir()] == [library.name]
    spec = importlib.util.spec_from_file_location("yaml._yaml", library)
    assert spec is not None
    assert importlib.util.module_from_spec(spec).__name__ == "yaml._yaml"


@with_strip
def test_a_library_that_would_not_load_any_more_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Path(shutil.copy(LIBRARY, tmp_path))
    monkeypatch.setitem(program["without_symbols"].__globals__, "loadable", lambda _: False)
    assert program["without_symbols"](library) == 0
    assert library.read_bytes() == LIBRARY.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == [library.name]


def test_a_segment_that_is_elsewhere_in_its_page_is_not_loadable() -> None:
    library = bytearray(LIBRARY.read_bytes())
    assert program["loadable"](library)
    *_, last = program["segments"](library)
    (offset,) = struct.unpack_from("<Q", library, last + 8)
    struct.pack_into("<Q", library, last + 8, offset + 8)
    assert not program["loadable"](library)
    for anywhere in (0, 1):
        struct.pack_into("<Q", library, last + 48, anywhere)
        assert program["loadable"](library)
