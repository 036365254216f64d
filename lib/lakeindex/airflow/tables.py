"""Tables that DAGs know by name: one YAML file each in ``conf/tables``.

::

    title: Flights from New York, 2013        # shown in the trigger form; default: the name
    uri: ${LAKE:-.demo/lake}/flights          # path or URL; ${NAME} and ${NAME:-default} from the environment;
                                              # or a table of a catalog: glue://database/table
    checkpoints: s3://bucket/runs             # default: <uri>.lakeindex, as on the command line
    create:                                   # arguments of `lakeindex create`; the DAGs do not need them
      key: [time_hour, carrier, flight]
      partition: [month]
      ordering: event_ms
    options: {hoodie.index.bloom.fpp: 1e-4}   # as -o; ${NAME} and ${NAME:-default} here too
    max_quarantined: 0
    spark: {driver_memory: 1g, conf: {spark.executor.memory: 2g}}
    execution: staged                         # one spark-submit for each stage; single: one for all five;
                                              # local: threads of one process of the worker, no JVM
    schedule: "@daily"                        # a table with a schedule has its own DAG, upsert_<name>
    start_date: 2013-12-01
    end_date: 2014-01-01
    catchup: false
    input: feed/{{ data_interval_start | ds }}.parquet   # Jinja over the run; a list for several

The name is the file's. Relative paths are relative to the project's folder. Read when a DAG file is parsed: standard
library and PyYAML only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import field

from lakeindex.catalogs.places import is_catalog_url
from lakeindex.errors import OptionError, UsageError
from lakeindex.frozen import Frozen
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import TABLE_PREFIX, default_checkpoints
from lakeindex.storage.paths import absolute, plain

STAGED: Final = "staged"
SINGLE: Final = "single"
LOCAL: Final = "local"
EXECUTIONS: Final = (STAGED, SINGLE, LOCAL)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class CreateConf(Frozen):
    """How the table is created: arguments of ``lakeindex create``."""

    key: tuple[str, ...]
    partition: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()


class SparkConf(Frozen):
    """What spark-submit is told for this table, over the DAG's own settings."""

    driver_memory: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class TableConf(Frozen):
    """One table, as its YAML file says. ``uri`` and ``checkpoints`` are absolute; ``inputs`` are Jinja templates.

    ``uri`` may name a table of a catalog: where it is, and without ``checkpoints`` they, is known when a task runs
    (:func:`lakeindex.airflow.files.placed`).
    """

    name: str
    title: str
    uri: str
    checkpoints: str
    create: CreateConf | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_quarantined: int = 0
    spark: SparkConf = field(default_factory=SparkConf)
    schedule: str | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    catchup: bool = False
    inputs: tuple[str, ...] = ()
    execution: str = STAGED


class _Where(Frozen):
    """A place in a table's file: the file, a line from 1, the key with those around it, what YAML found there."""

    file: str
    line: int
    key: str = ""
    node: yaml.Node | None = None

    def of(self, key: str) -> _Where:
        """The place of a key of the mapping that is here; of the mapping itself if it is not in it."""
        whole = f"{self.key}: {key}" if self.key else key
        if isinstance(self.node, yaml.MappingNode):
            for name, value in self.node.value:
                if name.value == key:
                    return _Where(self.file, name.start_mark.line + 1, whole, value)
        return _Where(self.file, self.line, whole)


class _Fields:
    """Takes typed values out of a mapping; what is wrong is said with file, line and key."""

    def __init__(self, raw: Any, where: _Where, known: frozenset[str]) -> None:
        self._where = where
        if not isinstance(raw, dict):
            place = f"{where.file}:{where.line}"
            raise UsageError(
                f"{place}: {where.key or 'the file'} is not a mapping",
                culprit=place,
                hint=f"keys: {', '.join(sorted(known))}",
            )
        self._raw: dict[str, Any] = raw
        unknown = sorted(str(key) for key in raw if key not in known)
        if unknown:
            raise self.wrong(unknown[0], "is unknown", f"known keys: {', '.join(sorted(known))}")

    def wrong(self, key: str, problem: str, hint: str) -> UsageError:
        at = self._where.of(key)
        return UsageError(f"{at.file}:{at.line}: {at.key} {problem}", culprit=f"{at.file}:{at.line}", hint=hint)

    def inner(self, key: str, known: frozenset[str]) -> _Fields | None:
        """The mapping that stands at a key; None if absent."""
        value = self._raw.get(key)
        return None if value is None else _Fields(value, self._where.of(key), known)

    def text(self, key: str) -> str | None:
        """Text, None if absent."""
        value = self._raw.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(key, f"cannot be {value!r}", "give text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """One text or a list of texts."""
        value = self._raw.get(key)
        items = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) and item for item in items):
            raise self.wrong(key, f"cannot be {value!r}", "give text, or a list of texts")
        return tuple(items)

    def whole(self, key: str) -> int:
        """A number, 0 if absent."""
        value = self._raw.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(key, f"cannot be {value!r}", "give a whole number, 0 or more")
        return value

    def flag(self, key: str) -> bool:
        """True or false, false if absent."""
        value = self._raw.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, f"cannot be {value!r}", "give true or false")
        return value

    def day(self, key: str) -> datetime | None:
        """A date or time; UTC if it says no zone."""
        value = self._raw.get(key)
        if value is None:
            return None
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        raise self.wrong(key, f"cannot be {value!r}", "give a date such as 2026-01-31")

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of names to scalar values, as text."""
        value = self._raw.get(key) or {}
        if not isinstance(value, dict) or any(isinstance(item, dict | list) or item is None for item in value.values()):
            raise self.wrong(key, f"cannot be {value!r}", "give name: value pairs")
        return {str(name): str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()}


_TABLE_KEYS: Final = frozenset(
    {"title", "uri", "checkpoints", "create", "options", "max_quarantined", "spark", "schedule", "start_date",
     "end_date", "catchup", "input", "execution"}
)  # fmt: skip


def project_root(dag_file: str) -> Path:
    """The folder that relative paths of tables' files are relative to:
    ``LAKEINDEX_HOME``, else the one above the DAG file's.
    """
    return Path(os.environ.get("LAKEINDEX_HOME") or Path(dag_file).resolve().parents[1])


def tables_folder(root: Path) -> Path:
    """Where the tables' files are: ``LAKEINDEX_TABLES``, else ``conf/tables`` below the project's folder."""
    return Path(os.environ.get("LAKEINDEX_TABLES") or root / "conf" / "tables")


def read_tables(
    folder: Path, root: Path, environ: Mapping[str, str] | None = None
) -> tuple[dict[str, TableConf], list[UsageError]]:
    """The tables of a folder by name, sorted, and what is wrong with the files that are none.

    Args:
        environ: where ``${NAME}`` is looked up; default: this process's environment.

    Raises:
        UsageError: there is no file.
    """
    env = os.environ if environ is None else environ
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise UsageError(f"no table in {folder}", culprit=str(folder), hint="add a file NAME.yaml with a uri")
    tables: dict[str, TableConf] = {}
    wrong: list[UsageError] = []
    for file in files:
        try:
            tables[file.stem] = load_table(file, root, env)
        except UsageError as error:
            wrong.append(error)
    return tables, wrong


def load_table(file: Path, root: Path, environ: Mapping[str, str]) -> TableConf:
    """One table; arguments as of :func:`read_tables`.

    Raises:
        UsageError: the file is not valid; names the file, the line and the key, and says what is.
    """
    if not _NAME.match(file.stem):
        raise UsageError(
            f"{file}: a table cannot be called {file.stem!r}", culprit=str(file), hint="letters, digits, _.-"
        )
    fields = _Fields(*_parsed(file), _TABLE_KEYS)

    def place(key: str, text: str) -> str:
        expanded = _expand(key, text, environ, fields)
        try:
            is_name = is_catalog_url(expanded) if key == "uri" else key == "input" and expanded.startswith(TABLE_PREFIX)
            return expanded if is_name else _absolute(expanded, root)
        except OptionError as error:
            raise fields.wrong(key, f"cannot be {text!r}", error.hint or error.message) from error

    uri = fields.text("uri")
    if uri is None:
        raise fields.wrong("uri", "is missing", "give the table's folder, a path or a URL")
    uri = place("uri", uri)
    checkpoints = fields.text("checkpoints")
    beside = "" if is_catalog_url(uri) else default_checkpoints(absolute(uri))
    return TableConf(
        name=file.stem,
        title=fields.text("title") or file.stem,
        uri=uri,
        checkpoints=place("checkpoints", checkpoints) if checkpoints else beside,
        create=_create(fields),
        options=_options(fields, environ),
        max_quarantined=fields.whole("max_quarantined"),
        spark=_spark(fields),
        execution=_execution(fields),
        **_schedule(fields, place),
    )


def _parsed(file: Path) -> tuple[Any, _Where]:
    """The values of a YAML file, and where they stand."""
    try:
        loader = yaml.SafeLoader(file.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        return (None if node is None else loader.construct_document(node)), _Where(str(file), 1, node=node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else str(file)
        problem = getattr(error, "problem", None) or error
        raise UsageError(f"{place} is not YAML: {problem}", culprit=place, hint="correct the file") from error


def _create(fields: _Fields) -> CreateConf | None:
    inner = fields.inner("create", frozenset({"key", "partition", "ordering"}))
    if inner is None:
        return None
    if not inner.texts("key"):
        raise inner.wrong("key", "is missing", "name the column or columns of the record key")
    return CreateConf(inner.texts("key"), inner.texts("partition"), inner.texts("ordering"))


def _options(fields: _Fields, environ: Mapping[str, str]) -> dict[str, str]:
    options = {name: _expand("options", text, environ, fields) for name, text in fields.pairs("options").items()}
    try:
        parse_options(options)
    except OptionError as error:
        raise fields.wrong(
            "options", f"are not valid: {error.message}", error.hint or "see `lakeindex options`"
        ) from error
    return options


def _spark(fields: _Fields) -> SparkConf:
    inner = fields.inner("spark", frozenset({"driver_memory", "conf"}))
    return SparkConf() if inner is None else SparkConf(inner.text("driver_memory"), inner.pairs("conf"))


def _execution(fields: _Fields) -> str:
    execution = fields.text("execution") or STAGED
    if execution not in EXECUTIONS:
        raise fields.wrong("execution", f"cannot be {execution!r}", f"give {' or '.join(EXECUTIONS)}")
    return execution


def _schedule(fields: _Fields, place: Callable[[str, str], str]) -> dict[str, Any]:
    schedule, start, inputs = fields.text("schedule"), fields.day("start_date"), fields.texts("input")
    if schedule is not None and not (start and inputs):
        missing = "input" if start else "start_date"
        raise fields.wrong(missing, "is missing", "a table with a schedule needs a start_date and an input")
    return {
        "schedule": schedule,
        "start_date": start,
        "end_date": fields.day("end_date"),
        "catchup": fields.flag("catchup"),
        "inputs": tuple(place("input", text) for text in inputs),
    }


def _expand(key: str, text: str, environ: Mapping[str, str], fields: _Fields) -> str:
    def value(found: re.Match[str]) -> str:
        name, default = found.group(1), found.group(2)
        if not environ.get(name) and default is None:
            raise fields.wrong(key, f"needs the environment variable {name}", f"set it, or write ${{{name}:-default}}")
        return environ.get(name) or str(default)

    return _VARIABLE.sub(value, text)


def _absolute(text: str, root: Path) -> str:
    if "{" in text:  # a template says the rest, or all; whoever gets the rendered text looks at it
        return text if "://" in text or text.startswith(("/", "~", "{")) else f"{root}/{text}"
    return plain(text, str(root))
