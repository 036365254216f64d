"""What one DAG run asks of the jobs: worked out once, by the first task, and handed to the others by XCom.

Plain values in, plain values out: no Airflow in here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeindex.airflow.tables import LOCAL, SINGLE, STAGED, TableConf
from lakeindex.errors import UsageError
from lakeindex.pipeline import run_id_of
from lakeindex.showing.json_values import json_of

AS_THE_TABLE_SAYS: Final = "as the table says"


@dataclass(frozen=True, slots=True)
class DagPlan:
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
        """One job does all stages."""
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
        inputs: places of the input, rendered.
        batch_id: names the batch for good.

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
