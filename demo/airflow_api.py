"""The few calls of Airflow's REST API that the demo on a cluster makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import requests
import tenacity

_ASK_SECONDS: Final = 30
_POLL_SECONDS: Final = 1.0
_PARSE_SECONDS: Final = 120
DONE: Final = frozenset({"success", "failed"})


class AirflowError(Exception):
    """The API server refused, or a run did not end in time; the message names the call."""


@dataclass(frozen=True, slots=True)
class Airflow:
    """An Airflow whose auth manager gives everyone a token (``SIMPLE_AUTH_MANAGER_ALL_ADMINS``).

    Attributes:
        url: of the API server.
    """

    url: str

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run by hand; its id. Waits for the DAG to be parsed and takes it out of pause.

        Raises:
            AirflowError: the DAG does not appear, or the run is refused.
        """
        waiting = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(AirflowError),
            stop=tenacity.stop_after_delay(_PARSE_SECONDS),
            wait=tenacity.wait_fixed(_POLL_SECONDS),
            reraise=True,
        )
        waiting(self._call, "PATCH", f"dags/{dag_id}", {"is_paused": False})
        run = self._call("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf})
        return str(run["dag_run_id"])

    def state(self, dag_id: str, run_id: str) -> str:
        """State of a run."""
        return str(self._call("GET", f"dags/{dag_id}/dagRuns/{run_id}")["state"])

    def tries(self, dag_id: str, run_id: str) -> dict[str, tuple[str, int]]:
        """State and number of tries of each task of a run."""
        found = self._call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")["task_instances"]
        return {task["task_id"]: (task["state"] or "none", task["try_number"]) for task in found}

    def wait(self, dag_id: str, run_id: str, patience_seconds: float) -> str:
        """The state that a run ends in.

        Raises:
            AirflowError: it did not end in time; says how far its tasks are.
        """
        waiting = tenacity.Retrying(
            retry=tenacity.retry_if_result(lambda state: state not in DONE),
            stop=tenacity.stop_after_delay(patience_seconds),
            wait=tenacity.wait_fixed(_POLL_SECONDS),
        )
        try:
            return waiting(self.state, dag_id, run_id)
        except tenacity.RetryError:
            tries = self.tries(dag_id, run_id)
            raise AirflowError(f"{dag_id} {run_id} did not end in {patience_seconds:.0f} s: {tries}") from None

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            token = requests.get(f"{self.url}/auth/token", timeout=_ASK_SECONDS).json()["access_token"]
            answer = requests.request(
                method,
                f"{self.url}/api/v2/{path}",
                json=body,
                headers={"Authorization": f"Bearer {token}"},
                timeout=_ASK_SECONDS,
            )
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
        except (requests.RequestException, KeyError) as error:
            raise AirflowError(f"{method} {path} at {self.url}: {error}") from error
        return found
