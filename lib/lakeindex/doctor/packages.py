"""Python and what is installed in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from lakeindex.doctor.findings import Check, fail, ok, warn

OLDEST: Final = (3, 11)
NEWEST: Final = (3, 13)
#: Extras that a person asks for; the others are for those who work on lakeindex.
EXTRAS: Final = ("spark", "airflow", "hbase", "hdfs", "metrics", "lineage", "airflow-lineage", "java", "postgres")

#: Version of an installed distribution, None if it is not installed.
Installed = Callable[[str], str | None]


def installed_version(name: str) -> str | None:
    """Version of a distribution in this Python."""
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
        installed: what is installed.
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
