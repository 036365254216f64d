"""How a task fails: for good if trying again would not help, and never without a word in the report tab."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakeindex.errors import described, in_our_words, may_pass, noted

#: Key of the XCom by which the report tab finds why a task failed that no job could say it for.
ERROR_KEY: Final = "lakeindex_error"


@contextmanager
def told_failures(context: Any) -> Iterator[None]:
    """Leave what goes wrong inside as XCom, for the report tab, and fail the task as it deserves.

    Raises:
        AirflowFailException: trying again would not help.
        LakeIndexError: it may pass, like a store that does not answer: Airflow tries again.
    """
    try:
        yield
    except AirflowSkipException:
        raise
    except Exception as raised:
        ours = in_our_words(raised)
        passes = may_pass(ours or raised) and not isinstance(raised, AirflowFailException)
        said = {**described(raised), "transient": passes}
        left = noted(
            "the report tab will not say why this failed",
            lambda: context["ti"].xcom_push(key=ERROR_KEY, value=said),
        )
        for note in left:
            print(note)  # noqa: T201 - Airflow's task log is stdout
        if ours is None or (passes and ours is raised):
            raise
        if passes:
            raise ours from raised
        raise AirflowFailException(str(ours)) from raised
