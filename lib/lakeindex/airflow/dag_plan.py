"""What one DAG run asks of the jobs: worked out once, by the first task, and handed to the others by XCom as plain
values.

The first task looks at storage to see whether the input is there, so nothing of it runs when a DAG file is parsed.

Templates over a DAG run are rendered in a sandbox of their own: who may trigger a run may name its dates, and nothing
else. Airflow's whole context has connections, variables and macros in it (``conn``, ``var``, ``macros``, ``task``,
``ti``): passwords, and code. The form's input is a text of whoever may trigger the run, so it sees plain values of the
run and its interval only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from jinja2 import StrictUndefined, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lakeindex.airflow.tables import LOCAL, SINGLE, STAGED, TableConf
from lakeindex.errors import InputError, UsageError
from lakeindex.frozen import Frozen
from lakeindex.model import MergeMode, Operation
from lakeindex.pipeline import TABLE_PREFIX, run_id_of
from lakeindex.showing.json_values import json_of
from lakeindex.storage.paths import plain

AS_THE_TABLE_SAYS: Final = "as the table says"


class DagPlan(Frozen):
    """One run: which table, which input, and the arguments that every job of the run gets.

    ``execution``: ``staged``, a spark-submit a stage; ``single``, one for all; ``local``, a process without a JVM.
    """

    table: str
    uri: str
    checkpoints: str
    run_id: str
    batch_id: str
    inputs: tuple[str, ...]
    operation: str = "UPSERT"
    options: tuple[tuple[str, str], ...] = ()
    max_quarantined: int = 0
    force: bool = False
    execution: str = STAGED

    @property
    def is_single(self) -> bool:
        return self.execution in {SINGLE, LOCAL}

    def arguments(self) -> list[str]:
        """Command line arguments; the same for every stage."""
        words = ["--table", self.uri, "--run-id", self.run_id, "--checkpoints", self.checkpoints]
        words += ["--batch-id", self.batch_id, "--operation", self.operation]
        words += ["--max-quarantined", str(self.max_quarantined)]
        for place in self.inputs:
            words += ["--input", place]
        for key, value in self.options:
            words += ["-o", f"{key}={value}"]
        words += ["--force"] if self.force else []
        return [*words, "--runner", LOCAL] if self.execution == LOCAL else words

    def to_xcom(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **json_of(self),
            "inputs": list(self.inputs),
            "options": [list(pair) for pair in self.options],
        }

    @classmethod
    def from_xcom(cls, value: Mapping[str, Any]) -> DagPlan:
        """Inverse of :meth:`to_xcom`."""
        options = tuple((str(key), str(text)) for key, text in value["options"])
        return cls(**{**value, "inputs": tuple(value["inputs"]), "options": options})


def batch_of_run(dag_id: str, run_id: str, map_index: int | None = None) -> str:
    """The batch id of a DAG run (of an instance of it, if it is mapped): the same in every try."""
    return f"{dag_id}/{run_id}/{map_index if map_index is not None else -1}"


def make_plan(table: TableConf, params: Mapping[str, Any], inputs: Sequence[str], *, batch_id: str) -> DagPlan:
    """The plan of one run from the table's file and what the trigger form says.

    Args:
        params: the form's values; they win.

    Raises:
        UsageError: no input was named.
    """
    if not inputs:
        raise UsageError(
            f"table {table.name} was given no input",
            culprit="input",
            hint="fill in Input in the trigger form, or give the table's yaml an input",
        )
    options = {**table.options, **{str(k): str(v) for k, v in (params.get("options") or {}).items()}}
    if params.get("index_type", AS_THE_TABLE_SAYS) != AS_THE_TABLE_SAYS:
        options["hoodie.index.type"] = str(params["index_type"])
    if params.get("lock_wait") is not None:
        options["lakeindex.lock.wait"] = str(params["lock_wait"])
    quarantined, execution = params.get("max_quarantined"), params.get("execution")
    return DagPlan(
        table=table.name,
        uri=table.uri,
        checkpoints=table.checkpoints,
        run_id=run_id_of(batch_id),
        batch_id=batch_id,
        inputs=tuple(inputs),
        operation=str(params.get("operation", "UPSERT")),
        options=tuple(sorted(options.items())),
        max_quarantined=table.max_quarantined if quarantined is None else int(quarantined),
        force=bool(params.get("force", False)),
        execution=table.execution if execution in {None, AS_THE_TABLE_SAYS} else str(execution),
    )


#: Airflow's type of the runs of a backfill.
BACKFILL: Final = "backfill"
MERGE_OPTION: Final = "hoodie.write.record.merge.mode"
#: What a template may name; times are datetimes, ``dag_run`` has ``run_id``, ``run_type``,
#: ``logical_date`` and ``conf``.
TIMES: Final = ("logical_date", "data_interval_start", "data_interval_end")
TEXTS: Final = ("ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz", "run_id", "dag_id")
RUN: Final = "dag_run"
FIELDS: Final = (*TIMES, *TEXTS, RUN)

_LONGEST: Final = 10_000
_STATEMENTS: Final = (nodes.Output, nodes.If)
_NUMBERS: Final = (int, float)

_JINJAS: Final = (
    "capitalize",
    "default",
    "first",
    "int",
    "last",
    "length",
    "lower",
    "string",
    "title",
    "trim",
    "upper",
)
"""Filters of Jinja's whose results are no longer than what they are given."""

_METHODS: Final[Mapping[type, frozenset[str]]] = {
    datetime: frozenset(
        {"date", "isocalendar", "isoformat", "isoweekday", "replace", "strftime", "timestamp", "weekday"}
    ),
    date: frozenset({"isocalendar", "isoformat", "isoweekday", "replace", "strftime", "weekday"}),
    dict: frozenset({"get"}),
    str: frozenset({"endswith", "lower", "lstrip", "replace", "rstrip", "split", "startswith", "strip", "upper"}),
}
"""Methods that may be called, likewise (what they are given is measured, and so are results)."""

_WIDTH: Final = re.compile(r"%[^A-Za-z%]*([0-9]{3}|\*)")
"""A format that asks for a hundred characters or more."""


def _short(value: Any) -> Any:
    """A value that is no longer than a template may be. Raises: SecurityError."""
    if isinstance(value, (str, list)) and len(value) > _LONGEST:
        raise SecurityError(f"a value has {len(value):,} characters")
    return value


def _formatted(text: str, *values: Any) -> str:
    if _WIDTH.search(text):
        raise SecurityError(f"{text!r} is too wide a format")
    return str(_short(text % values))


def _replaced(text: str, old: str, new: str, count: int = -1) -> str:
    given, gone, put = _short(str(text)), str(old), str(new)
    if len(put) > _LONGEST // 100:
        raise SecurityError(f"{len(put):,} characters are too many to put in place of others")
    return str(_short(given.replace(gone, put, count)))


class _Sandbox(ImmutableSandboxedEnvironment):
    """Expressions over plain values; no loops, no imports, nothing that grows: neither texts nor memory."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Numbers, and texts that are joined: a text times a number fills the memory."""
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return _short(left + right)
        if operator == "**" or not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
            raise SecurityError(f"{left!r} {operator} {right!r} is not worked out")
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field of the run, unless it is too long."""
        return _short(super().getattr(obj, attribute))

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A field of the run, unless it is too long."""
        return _short(super().getitem(obj, argument))

    def call(self, context: Any, method: Any, /, *args: Any, **kwargs: Any) -> Any:
        """One of the methods that are offered."""
        del context
        owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
        if name not in _METHODS.get(type(owner), frozenset()):
            raise SecurityError(f"{name or method!r} is not called")
        for one in (owner, *args, *kwargs.values()):
            _short(one)
        if name == "replace" and isinstance(owner, str):
            return _replaced(owner, *args, **kwargs)
        wide = next((one for one in (*args, *kwargs.values()) if _WIDTH.search(str(one))), None)
        if name == "strftime" and wide is not None:
            raise SecurityError(f"{wide!r} is too wide a format")
        return _short(method(*args, **kwargs))


_SANDBOX: Final = _Sandbox(undefined=StrictUndefined, autoescape=False)
_SANDBOX.globals.clear()
_SANDBOX.filters = {name: _SANDBOX.filters[name] for name in _JINJAS}
_SANDBOX.filters |= {
    "ds": lambda time: time.strftime("%Y-%m-%d"),
    "ds_nodash": lambda time: time.strftime("%Y%m%d"),
    "ts": lambda time: time.isoformat(),
    "ts_nodash": lambda time: time.strftime("%Y%m%dT%H%M%S"),
    "ts_nodash_with_tz": lambda time: time.isoformat().replace("-", "").replace(":", ""),
}
_SANDBOX.filters["format"] = _formatted
_SANDBOX.filters["replace"] = _replaced


def rendered(templates: Sequence[str], context: Mapping[str, Any]) -> list[str]:
    """Templates over the fields of a run; empty ones are left out.

    Args:
        context: Airflow's, of the running task; only :data:`FIELDS` of it are seen.

    Raises:
        UsageError: a template names something else, does what is not allowed,
            or needs an interval that the run has not.
    """
    fields = _fields_of(context)
    return [_rendered(text.strip(), fields) for text in templates if text.strip()]


def _rendered(text: str, fields: Mapping[str, Any]) -> str:
    if len(text) > _LONGEST:
        raise _bad_template(text[:100], f"has {len(text):,} characters")
    try:
        return _worked_out(text, fields)
    except UsageError:
        raise
    except Exception as error:  # a template is code of whoever may trigger the run, and raises what it likes
        raise _bad_template(text, f"cannot be worked out: {type(error).__name__}: {error}") from error


def _worked_out(text: str, fields: Mapping[str, Any]) -> str:
    parsed = _SANDBOX.parse(text)
    for statement in parsed.find_all(nodes.Stmt):
        if not isinstance(statement, _STATEMENTS):
            raise _bad_template(text, f"has a {type(statement).__name__.lower()} in it")
    for name in sorted(meta.find_undeclared_variables(parsed)):
        if name not in FIELDS:
            raise _bad_template(text, f"names {name!r}")
        if fields.get(name) is None:
            raise UsageError(
                f"the input {text!r} needs {_what(name)}, and this run has none",
                culprit="input",
                hint="trigger the run with a logical date, or name the input in the form",
            )
    return _SANDBOX.from_string(text).render(dict(fields))


def _what(name: str) -> str:
    return "a data interval" if name.startswith("data_interval") else f"a logical date ({name})"


def _bad_template(text: str, why: str) -> UsageError:
    return UsageError(
        f"the input {text!r} {why}",
        culprit="input",
        hint=f"templates see {', '.join(FIELDS)}, the filters {', '.join(sorted(_SANDBOX.filters))}; "
        "connections, variables and macros are not for the form",
    )


def _fields_of(context: Mapping[str, Any]) -> dict[str, Any]:
    """Plain values: nothing that leads on to the task, the DAG or their modules."""
    run = context.get("dag_run")
    fields: dict[str, Any] = {name: _time(context.get(name)) for name in TIMES}
    known = {"run_id": getattr(run, "run_id", None), "dag_id": getattr(run, "dag_id", None)}
    fields |= {name: _text(known.get(name) or context.get(name)) for name in TEXTS}
    fields[RUN] = {
        "run_id": fields["run_id"],
        "run_type": _text(getattr(run, "run_type", None)),
        "logical_date": fields["logical_date"],
        "conf": _plain(getattr(run, "conf", None)),
    }
    return fields


def _time(value: Any) -> datetime | None:
    """A datetime of Python's own; Airflow's may be a proxy, or pendulum's."""
    if value is None or not hasattr(value, "isoformat"):
        return None
    try:
        return datetime.fromisoformat(value.isoformat())
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _plain(value: Any) -> Any:
    """JSON values; nothing else."""
    try:
        return json.loads(json.dumps(value)) or {}
    except (TypeError, ValueError):
        return {}


def plan_run(table: TableConf, context: Mapping[str, Any], *, batch_id: str, may_skip: bool, root: str = "") -> DagPlan:
    """The plan of the running DAG run, its input looked up.

    Args:
        context: of the running task; its params may say more than the table's file.
        may_skip: whether input that is not there yet skips the task.
        root: what relative inputs are relative to, once their templates are rendered; default: the working folder.

    Raises:
        AirflowSkipException: the input is not there yet.
        InputError: input that a person named is not there.
        UsageError: no input was named, a template is wrong, or a backfill is refused.
        StorageError: the store does not answer, or refuses.
    """
    from lakeindex.airflow import files

    table, params = files.placed(table), context["params"]
    given = params.get("input")
    found = rendered(given.splitlines() if given else table.inputs, context)
    inputs = [text if text.startswith(TABLE_PREFIX) else plain(text, root) for text in found]
    plan = make_plan(table, params, inputs, batch_id=batch_id)
    missing = [place for place in plan.inputs if not files.is_there(place)]
    if missing and may_skip:
        from airflow.sdk.exceptions import AirflowSkipException  # else all that know a plan's names load Airflow

        raise AirflowSkipException(f"no data yet: {', '.join(missing)}")
    if missing:
        raise InputError(
            f"no input at {', '.join(missing)}",
            culprit=missing[0],
            hint="name files, folders or * patterns that are there, as the Airflow worker sees them",
        )
    refuse_backfill(plan, context)
    return plan


def refuse_backfill(plan: DagPlan, context: Mapping[str, Any]) -> None:
    """Refuse a run of a backfill that would put older rows over newer ones.

    Raises:
        UsageError: the table has no ordering field that says which row is newer, or rows are to be deleted or replaced.
        TableError: there is no table, or it is damaged.
    """
    from lakeindex.airflow import files

    run = context.get("dag_run")
    if run is None or run.run_type != BACKFILL:
        return
    by_hand = "trigger the intervals by hand, oldest first, and those after them again"
    name = plan.table
    if plan.operation == Operation.DELETE:
        raise _refused(plan, f"{name}: a backfill cannot delete, for a delete by key wins over newer rows", by_hand)
    if plan.operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE):
        raise _refused(plan, f"{name}: a backfill cannot overwrite, for it would replace newer rows, too", by_hand)
    mode = files.merge_mode(plan.uri) or dict(plan.options).get(MERGE_OPTION)
    if mode != MergeMode.EVENT_TIME_ORDERING:
        why = "no field orders its rows, so an older interval would overwrite newer ones"
        cure = f"create the table with an ordering field, or {by_hand}"
        raise _refused(plan, f"a backfill of {name} is refused: {why}", cure)


def _refused(plan: DagPlan, why: str, hint: str) -> UsageError:
    return UsageError(why, culprit=plan.uri, hint=hint)
