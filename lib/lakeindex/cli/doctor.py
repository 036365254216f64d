"""All checks of ``lakeindex doctor``, one after the other; ``docs/schemas/doctor.json`` describes the JSON of what they
find.

* The machine: Java, Spark, memory.
* The connection by which Airflow would submit jobs: one that is missing or malformed silently means YARN.
* A table's place: can it be listed, is it a table that is written to, does the store keep its promises, do clocks
  agree.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from lakeindex.errors import LakeIndexError, ObjectExistsError, ObjectNotFoundError, TableNotFoundError, UsageError
from lakeindex.format.instants import instant_time_to_ms
from lakeindex.frozen import Frozen
from lakeindex.hashing.loops import CURE, loaded
from lakeindex.runners.java import find_java_home, java_major
from lakeindex.showing.json_result import SCHEMA_VERSION, JsonResult
from lakeindex.storage import open_storage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import check_written
from lakeindex.tasks.memory_bound import LEAST_DEFAULT, default_memory


class CheckVerdict(StrEnum):
    """How a check ended: fine, may become a problem, a run that needs this cannot work."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Frozen):
    """One check.

    Attributes:
        cure: what to do; None where nothing has to be done.
        error: class of the error that a run would end with; None unless it fails.
        exit_code: that error's exit code; 0 unless it fails.
    """

    name: str
    verdict: CheckVerdict
    found: str
    cure: str | None = None
    error: str | None = None
    exit_code: int = 0


class Diagnosis(JsonResult):
    """All checks, in the order they were made."""

    shown_by: ClassVar[str] = "facts:show_diagnosis"

    checks: tuple[Check, ...]
    schema_version: int = SCHEMA_VERSION

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.verdict is CheckVerdict.FAIL)


def ok(name: str, found: str) -> Check:
    return Check(name, CheckVerdict.OK, found)


def warn(name: str, found: str, cure: str) -> Check:
    """It works, or may not matter."""
    return Check(name, CheckVerdict.WARN, found, cure)


def fail(name: str, found: str, cure: str, error: str = "UsageError", exit_code: int = 2) -> Check:
    """It does not work."""
    return Check(name, CheckVerdict.FAIL, found, cure, error, exit_code)


def failed_with(name: str, error: Exception) -> Check:
    """A check that ended with an exception: a run would, too."""
    kind = type(error).__name__
    if isinstance(error, LakeIndexError):
        return fail(name, error.message, error.hint or "see the message", kind, error.exit_code)
    return fail(name, f"{kind}: {error}", "see the message", kind, 1)


_SPARK_SECONDS: Final = 180
_GIB: Final = 2**30
#: Spark 3.5's Hadoop asks for the security manager, which Java 24 has taken away.
_FIRST_WITHOUT_SECURITY_MANAGER: Final = 24
_START_SPARK: Final = """\
from lakeindex.runners.spark_session import spark_session
session = spark_session("local[1]", "lakeindex doctor")
assert session.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
java = session.sparkContext._jvm.java.lang.System.getProperty("java.version")
print("started Spark", session.version, "on Java", java)
session.stop()
"""

VARIABLE: Final = "AIRFLOW_CONN_SPARK_DEFAULT"
_CONNECTION: Final = "airflow connection spark_default"
_CONNECTION_CURE: Final = (
    """set AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]"}' (or spark://HOST, with a port)"""
)
_AIRFLOW_SECONDS: Final = 90

#: Asks Airflow itself for the connection; None if it has none.
AskAirflow = Callable[[], Mapping[str, Any] | None]

_SKEW_WARN: Final = 2.0
_SKEW_FAIL: Final = 60.0
_CLOCK_CURE: Final = "set the clocks by NTP: leases and instants rest on them"
OLDEST: Final = (3, 11)
NEWEST: Final = (3, 13)
#: Extras that a person asks for; the others are for those who work on lakeindex.
EXTRAS: Final = ("spark", "airflow", "hbase", "hdfs", "metrics", "lineage", "airflow-lineage", "java", "postgres")

#: Version of an installed distribution, None if it is not installed.
Installed = Callable[[str], str | None]


def installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_python(version: tuple[int, int, int] | None = None) -> Check:
    """Whether this Python is one that lakeindex is tested with."""
    found = version or sys.version_info[:3]
    text = f"{'.'.join(map(str, found))}, {sys.executable}"
    if OLDEST <= found[:2] <= NEWEST:
        return ok("python", text)
    return fail("python", text, "use Python 3.11, 3.12 or 3.13")


def check_packages(
    requirements: Sequence[str] | None = None, installed: Installed = installed_version
) -> Iterator[Check]:
    """The library's own requirements, then the extras: which are whole, which are not, which are not there.

    Args:
        requirements: as the distribution's metadata has them; by default those of the installed lakeindex.
    """
    texts = metadata.requires("lakeindex") or [] if requirements is None else requirements
    parsed = [Requirement(text) for text in texts]
    core = [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": ""})]
    yield _check_core(core, installed)
    for extra in EXTRAS:
        wanted = [
            one
            for one in parsed
            if one not in core and one.marker is not None and one.marker.evaluate({"extra": extra})
        ]
        if wanted:
            yield _check_extra(extra, wanted, installed)
    clash = check_pyspark_client(installed)
    if clash is not None:
        yield clash


def _check_core(wanted: Sequence[Requirement], installed: Installed) -> Check:
    version = installed("lakeindex") or "not installed (a checkout on the path)"
    wrong = _wrong(wanted, installed)
    if wrong:
        return fail("lakeindex", f"{version}, but: {', '.join(wrong)}", "pip install --upgrade lakeindex")
    return ok("lakeindex", f"{version} with {len(wanted)} packages as required")


def _check_extra(extra: str, wanted: Sequence[Requirement], installed: Installed) -> Check:
    name, cure = f"extra {extra}", f"pip install 'lakeindex[{extra}]', if you need it"
    there = [one for one in wanted if installed(one.name) is not None]
    if not there:
        return ok(name, "not installed")
    wrong = _wrong(wanted, installed)
    if wrong:
        return warn(name, ", ".join(wrong), cure)
    return ok(name, ", ".join(f"{one.name} {installed(one.name)}" for one in wanted))


def _wrong(wanted: Sequence[Requirement], installed: Installed) -> list[str]:
    found = []
    for one in wanted:
        version = installed(one.name)
        if version is None:
            found.append(f"{one.name} is missing")
        elif not one.specifier.contains(version, prereleases=True):
            found.append(f"{one.name} {version} is not {one.specifier}")
    return found


def check_pyspark_client(installed: Installed = installed_version) -> Check | None:
    """Whether pyspark-client, which Airflow's Spark provider asks for, lies over pyspark; None if it is not there.

    Both install into the folder ``pyspark``: the second overwrites files of the first,
    and has no jars and no spark-submit.
    """
    client, pyspark = installed(canonicalize_name("pyspark-client")), installed("pyspark")
    if client is None:
        return None
    cure = f"pip uninstall -y pyspark-client && pip install --force-reinstall --no-deps pyspark=={pyspark or client}"
    if pyspark is None:
        return warn("pyspark-client", f"{client} alone: it cannot start Spark or submit jobs", cure)
    if Version(client) == Version(pyspark):
        return warn("pyspark-client", f"{client} lies over pyspark {pyspark}: same version, so both work", cure)
    return fail("pyspark-client", f"{client} lies over pyspark {pyspark}: files of two versions in one folder", cure)


def examine(uri: str | None = None, *, spark: bool = False, write: bool = False) -> Diagnosis:
    """Look at the environment, and at a table's place.

    Args:
        uri: a table's folder, which need not be there yet.
    """
    return Diagnosis(tuple(_checks(uri, spark=spark, write=write)))


def _checks(uri: str | None, *, spark: bool, write: bool) -> Iterator[Check]:
    pyspark = installed_version("pyspark")
    yield check_python()
    yield from check_packages()
    yield check_loops()
    yield check_java(pyspark)
    for check in (check_submit(pyspark), check_connection()):
        if check is not None:
            yield check
    yield check_memory()
    if spark:
        yield check_spark_starts()
    if uri is not None:
        yield from check_place(uri, write=write)


def check_loops() -> Check:
    """Whether the loops over rows and bytes are compiled, or their slower forms in numpy do the work."""
    found = loaded()
    if found.problem:
        return warn("loops", f"in numpy, with the same results but slower: {found.problem}", CURE)
    return ok("loops", f"compiled, {found.path}")


def check_java(pyspark: str | None, environ: Mapping[str, str] | None = None) -> Check:
    """Which Java Spark would start with, and whether it fits this PySpark.

    Args:
        pyspark: the version that is installed, None if none is.
    """
    try:
        home = find_java_home(environ=environ)
    except UsageError as error:
        if pyspark is None:
            return ok("java", "none; only Spark needs one")
        return failed_with("java", error)
    major = java_major(home)
    text = f"Java {major} in {home}"
    if pyspark is None:
        return ok("java", text)
    if Version(pyspark) < Version("4") and (major or 0) >= _FIRST_WITHOUT_SECURITY_MANAGER:
        return fail("java", f"{text}; PySpark {pyspark} does not start on it", "set JAVA_HOME to a Java 17")
    return ok("java", f"{text}, fits PySpark {pyspark}")


def check_submit(pyspark: str | None, environ: Mapping[str, str] | None = None) -> Check | None:
    """Whether jobs would be submitted by this environment's Spark and run by its Python; None without PySpark."""
    if pyspark is None:
        return None
    env = os.environ if environ is None else environ
    command = shutil.which("spark-submit", path=env.get("PATH", ""))
    if command is None:
        return warn("spark-submit", "not on PATH", f"for Airflow, put {Path(sys.executable).parent} first on PATH")
    if not env.get("PYSPARK_PYTHON"):
        cure = f"for jobs, export PYSPARK_PYTHON={sys.executable}; else Spark takes the first python3 on PATH"
        return warn("spark-submit", f"{command}, but PYSPARK_PYTHON is not set", cure)
    return ok("spark-submit", f"{command}, workers run {env['PYSPARK_PYTHON']}")


def check_spark_starts() -> Check:
    """Start Spark in a process of its own, and send rows through a Python worker."""
    command = [sys.executable, "-c", _START_SPARK]
    try:
        done = subprocess.run(  # noqa: S603 - this Python, our text
            command, capture_output=True, text=True, timeout=_SPARK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return fail("spark", f"did not start within {_SPARK_SECONDS} s", "look at the machine's load and memory")
    if done.returncode == 0:
        return ok("spark", done.stdout.strip().rpartition("\n")[2])
    last = (done.stderr.strip() or "it said nothing").rpartition("\n")[2]
    return fail("spark", last, "pip install 'lakeindex[spark]'; see java above", "RuntimeError", 1)


def check_memory(available: int | None = None) -> Check:
    """What a run's tasks may hold together if nothing is said."""
    bound = default_memory() if available is None else available
    text = f"{bound / _GIB:.1f} GiB for a run's tasks (half of the machine's or the cgroup's)"
    if bound <= LEAST_DEFAULT:
        return warn("memory", text, "give -o lakeindex.memory=SIZE, 64m or more, or a larger machine")
    return ok("memory", text)


def check_connection(
    environ: Mapping[str, str] | None = None, installed: Installed = installed_version, ask: AskAirflow | None = None
) -> Check | None:
    """Whether jobs go where one thinks they go; None without Airflow.

    Args:
        environ: where ``AIRFLOW_CONN_SPARK_DEFAULT`` is looked for; by default this process's environment.
        ask: asked if the variable is not set; by default the command ``airflow``.
    """
    if installed("apache-airflow") is None:
        return None
    text = (os.environ if environ is None else environ).get(VARIABLE)
    if text is None:
        found = (ask or _ask_airflow)()
        if found is None:
            return warn(
                _CONNECTION,
                f"{VARIABLE} is not set, and Airflow does not know it: jobs would go to YARN",
                _CONNECTION_CURE,
            )
        return _verdict(found, "in Airflow")
    try:
        found = json.loads(text)
    except ValueError:
        return fail(
            _CONNECTION,
            f"{VARIABLE} is no JSON: as a URL it is easily misread, and then jobs go to YARN",
            _CONNECTION_CURE,
        )
    if not isinstance(found, dict):
        return fail(_CONNECTION, f"{VARIABLE} is no JSON object", _CONNECTION_CURE)
    return _verdict(found, VARIABLE)


def _verdict(found: Mapping[str, Any], where: str) -> Check:
    kind, host, port = found.get("conn_type"), found.get("host"), found.get("port")
    if kind != "spark":
        return fail(_CONNECTION, f"{where}: conn_type is {kind!r}, not 'spark'", _CONNECTION_CURE)
    if not host:
        return fail(_CONNECTION, f"{where}: it has no host", _CONNECTION_CURE)
    master = f"{host}:{port}" if port else str(host)
    if master.startswith("yarn"):
        return warn(_CONNECTION, f"{where}: --master yarn", "leave it so if you mean YARN; else " + _CONNECTION_CURE)
    return ok(_CONNECTION, f"{where}: --master {master}")


def _ask_airflow() -> Mapping[str, Any] | None:
    command = shutil.which("airflow", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if command is None:
        return None
    asked = [command, "connections", "get", "spark_default", "--output", "json"]
    try:
        done = subprocess.run(  # noqa: S603 - a command we looked up
            asked, capture_output=True, text=True, timeout=_AIRFLOW_SECONDS, check=False
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if isinstance(answer, list):
        answer = answer[0] if answer else None
    return answer if isinstance(answer, dict) else None


def check_place(uri: str, *, write: bool) -> Iterator[Check]:
    """The checks of a place.

    Args:
        uri: a table's folder, which need not be there yet.
    """
    try:
        store = open_storage(uri)
        listing = store.list_folder("")
    except (LakeIndexError, OSError, ValueError) as error:
        yield failed_with("storage", error)
        return
    yield ok("storage", f"{store.uri} can be listed: {len(listing.folders)} folders, {len(listing.objects)} files")
    table = _open(store)
    yield table if isinstance(table, Check) else _check_table(table)
    if isinstance(table, Table):
        yield from _check_newest(table)
    if write:
        folder = ".hoodie/.lakeindex/doctor" if isinstance(table, Table) else "lakeindex-doctor"
        yield from probe(store, f"{folder}/{uuid.uuid4().hex}")


def _open(store: Storage) -> Table | Check:
    try:
        return Table.open(store)
    except TableNotFoundError:
        return warn("table", f"no table at {store.uri} yet", "make it with `lakeindex create`")
    except LakeIndexError as error:
        return failed_with("table", error)


def _check_table(table: Table) -> Check:
    try:
        check_written(table, table.snapshot())
    except LakeIndexError as error:
        return failed_with("table", error)
    index = table.index()
    return ok(
        "table", f"{table.name}, {'no index bound yet' if index is None else index.index_type}, can be written to"
    )


def _check_newest(table: Table) -> Iterator[Check]:
    """The newest instant must not be of tomorrow: ours would be named after it for as long."""
    try:
        newest = table.load_timeline().max_time
    except LakeIndexError as error:
        yield failed_with("timeline", error)
        return
    if newest is not None and instant_time_to_ms(newest) / 1000 - time.time() > _SKEW_FAIL:
        yield warn("timeline", f"the newest instant, {newest}, is ahead of this machine's clock", _CLOCK_CURE)


def probe(store: Storage, path: str) -> Iterator[Check]:
    """Create, create again, read, list, and delete an object; look at the time the store gives it.

    Args:
        path: the object's path; it must not be there.
    """
    text = b"written by lakeindex doctor"
    try:
        before = time.time()
        store.create(path, text)
        after = time.time()
    except (LakeIndexError, OSError) as error:
        yield failed_with("write", error)
        return
    try:
        yield _second_create(store, path)
        if store.read(path) != text:
            yield fail("write", f"{path} does not hold what was written", "use another store", "StorageError", 1)
        elif path not in {one.path for one in store.list(path.rpartition("/")[0])}:
            yield fail("write", f"{path} is not listed after it was written", "use another store", "StorageError", 1)
        yield _clock(store.head(path).modified_ms / 1000, before, after)
    except (LakeIndexError, OSError) as error:
        yield failed_with("write", error)
    finally:
        gone = _deleted(store, path)
    yield gone


def _second_create(store: Storage, path: str) -> Check:
    """Commits, locks and tokens rest on this."""
    try:
        store.create(path, b"a second writer")
    except ObjectExistsError:
        return ok("conditional put", "create-if-absent has one winner")
    return fail(
        "conditional put",
        "an object was created twice: the store ignores If-None-Match",
        "use a store with conditional puts: without them two writers can lose each other's commits",
        "StorageError",
        1,
    )


def _clock(stored: float, before: float, after: float) -> Check:
    """The store's clock beside this machine's; stores give whole seconds."""
    skew = max(before - 1 - stored, stored - after - 1, 0.0)
    if skew > _SKEW_FAIL:
        return fail("clock", f"{skew:.0f} s away from the store's", _CLOCK_CURE, "ConflictError", 5)
    if skew > _SKEW_WARN:
        return warn("clock", f"{skew:.0f} s away from the store's", _CLOCK_CURE)
    return ok("clock", "agrees with the store's")


def _deleted(store: Storage, path: str) -> Check:
    try:
        store.delete(path)
        store.head(path)
    except ObjectNotFoundError:
        return ok("write", f"a probe below {store.uri} was written, read, listed and deleted")
    except (LakeIndexError, OSError) as error:
        return failed_with("delete", error)
    return fail("delete", f"{path} is still there", "delete it by hand, and look at the rights", "StorageError", 1)
