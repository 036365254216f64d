"""Every error has the exit code of its branch, and comes out of a pickle as it went in."""

import pickle

import pytest

from lakeindex import errors
from lakeindex.errors import (
    AccessDeniedError,
    ConflictError,
    LakeIndexError,
    MachineError,
    StorageError,
    code_may_pass,
    may_pass,
)

BRANCHES = {
    "UsageError": 2,
    "InputError": 3,
    "TableError": 4,
    "ConflictError": 5,
    "InvariantError": 6,
    "StorageError": 1,
    "LakeIndexError": 1,
}
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LakeIndexError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_ends_as_its_branch_does(kind: type[LakeIndexError]):
    branch = next(one.__name__ for one in kind.__mro__ if one.__name__ in BRANCHES)
    assert kind.exit_code == BRANCHES[branch]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_travels_whole(kind: type[LakeIndexError]):
    back = pickle.loads(pickle.dumps(kind("what", culprit="who", hint="how")))
    assert (type(back), back.message, back.culprit, back.hint) == (kind, "what", "who", "how")
    assert str(back) == "what (how)"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_may_pass_is_said_by_the_tree(kind: type[LakeIndexError]):
    passing = issubclass(kind, (ConflictError, StorageError, MachineError)) and not issubclass(kind, AccessDeniedError)
    assert may_pass(kind("what")) is passing
    assert code_may_pass(kind.exit_code) or not passing, "who knows the code alone would give up too early"


def test_an_exit_code_may_pass_if_an_error_with_it_may():
    assert {code for code in range(256) if not code_may_pass(code)} == {2, 3, 4, 6}
