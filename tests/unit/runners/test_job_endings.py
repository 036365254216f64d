"""How tasks and jobs end, and who hears of it."""

import pytest

from lakeindex.errors import InvariantError, LakeIndexError, StorageError, TableNotFoundError, WriteConflictError
from lakeindex.runners.job_arguments import run_spec
from lakeindex.runners.jobs import _described
from lakeindex.runners.local import LocalRunner


def odd_ones_fail(number: int) -> int:
    if number % 2:
        raise StorageError(f"task {number} cannot read", culprit=f"file {number}")
    return number


@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("tasks", [[3], [0, 2, 3, 4], [1, 0], [0, 0, 0, 0, 0, 0, 5]])
def test_the_first_failure_of_a_map_is_raised(slots: int, tasks: list[int]):
    first = next(number for number in tasks if number % 2)
    with pytest.raises(StorageError, match=f"task {first} cannot read"):
        LocalRunner(slots).map(odd_ones_fail, tasks, "read")
    assert LocalRunner(slots).map(odd_ones_fail, [0, 2, 4], "read") == [0, 2, 4]


@pytest.mark.parametrize(
    ("error", "code", "transient"),
    [
        (StorageError("the store does not answer"), 1, True),
        (WriteConflictError("another writer"), 5, True),
        (TableNotFoundError("no table"), 4, False),
        (InvariantError("rows lost"), 6, False),
        (MemoryError("no room"), 1, True),
    ],
)
def test_a_job_says_whether_it_helps_to_try_again(error: Exception, code: int, transient: bool):
    said = _described(error)
    assert (said["exit_code"], said["transient"]) == (code, transient)
    assert (error.message if isinstance(error, LakeIndexError) else str(error)) in str(said["message"])


def test_an_option_may_hold_an_equals_sign():
    spec = run_spec(
        inputs=("in",),
        operation="UPSERT",
        options=("b=x=y", "a=1"),
        table_uri="t",
        checkpoints_uri="r",
        run_id="r",
        batch_id="b",
    )
    assert spec.options == (("a", "1"), ("b", "x=y"))
