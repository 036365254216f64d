"""Spark jobs as a DAG sees them: a stub in the place of spark-submit that leaves a job's files behind."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeindex.errors import described
from lakeindex.pipeline import Stage

FATES = {
    "rows_in": 10,
    "combined": 1,
    "quarantined": 0,
    "inserts": 4,
    "updates": 3,
    "deletes": 1,
    "moved": 0,
    "ignored": 1,
}
COUNTERS = {"rows_in": 10, "rows_out": 9, "pairs_in": 90, "pairs_out": 9}


@dataclass
class Jobs:
    """The jobs as a DAG sees them: what was submitted, and how each is to end."""

    submitted: list[tuple[str, list[str]]] = field(default_factory=list)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    failing_table: str | None = None  # errors are this table's alone; None: whose job comes first
    refused: int | None = None  # a job ends with this exit code and leaves no file, as where run folders are refused
    instant: str | None = "20131202000000000"
    index_type: str = "BLOOM"
    stages: tuple[Stage, ...] = tuple(Stage)

    def run(self, application: str, words: list[str]) -> None:
        """One job."""
        from airflow.sdk.exceptions import AirflowException

        stage = Path(application).stem
        self.submitted.append((stage, words))
        if self.refused is not None:
            raise AirflowException(f"Cannot execute: spark-submit. Error code is: {self.refused}.")
        folder = Path(words[words.index("--checkpoints") + 1]) / words[words.index("--run-id") + 1]
        folder.mkdir(parents=True, exist_ok=True)
        table = words[words.index("--table") + 1] if "--table" in words else None
        if self.errors.get(stage) and self.failing_table in (None, table):
            (folder / f"{stage}.error.json").write_text(json.dumps(described(self.errors[stage].pop(0))))
            raise AirflowException("Cannot execute: spark-submit. Error code is: 3.")
        if stage == "upsert":
            for each in self.stages:
                self._leave(folder, str(each))
        else:
            self._leave(folder, stage)

    def _leave(self, folder: Path, stage: str) -> None:
        """What a stage leaves in the run's folder."""
        costs = {"seconds": 0.5, "requests": 2, "bytes_read": 100}
        manifest = {"stage": stage, "counters": COUNTERS, "costs": costs, "facts": {"index_type": self.index_type}}
        (folder / f"{stage}.json").write_text(json.dumps(manifest))
        if stage == "merge_write":
            stages = [{"name": str(s), **COUNTERS, "seconds": 0.5, "requests": 2, "bytes_read": 100} for s in Stage]
            summary = {
                "instant": self.instant,
                "batch_id": "b",
                "run_id": "r",
                "operation": "UPSERT",
                "noop": False,
                **FATES,
                "stages": stages,
            }
            (folder / "summary.json").write_text(json.dumps(summary))


def states(run: Any) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def set_state(run: Any, task: str, state: str) -> None:
    """What Airflow says of a task of a run."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import update

    with create_session() as session:
        mine = (TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id, TaskInstance.task_id == task)
        session.execute(update(TaskInstance).where(*mine).values(state=state))


def asset_events(name: str) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.scalars(
            select(AssetEvent)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.name == name)
            .order_by(AssetEvent.id)
        )
        return [row.extra for row in rows]
