"""Rows of the table that are a batch: those that meet a condition, with the keys that they are stored by."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeindex.hashing.arrow import one_array
from lakeindex.model import Change
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.write.base_file import PARTITION_PATH, RECORD_KEY

if TYPE_CHECKING:
    from lakeindex.predicates.predicate import Condition

CHOSEN_FOLDER: Final = "chosen"
"""Where in a run's folder the chosen rows are."""


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Which rows are changed, and how.

    Attributes:
        change: what is done with them.
        text: the condition as messages show it.
        values: of an update, names of columns and what digests of their new values are made of; in the order given.
    """

    change: Change
    where: Condition = field(compare=False)
    text: str
    values: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Names what is asked for, whatever rows meet the condition: what a batch id stands for."""
        where = self.where if isinstance(self.where, str) else pickle.dumps(self.where).hex()
        return digest_of_text(str(self.change), where, *(part for value in self.values for part in value))


def is_chosen(run_id: str, path: str) -> bool:
    """Whether a file of the batch holds chosen rows of the table, and not rows that a caller has given.

    Args:
        path: of the file, below the root of the run folders.
    """
    return path.startswith(f"{run_id}/{CHOSEN_FOLDER}/")


def stored_keys(batch: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Record keys and partition paths of chosen rows, as they are stored."""
    return one_array(batch.column(RECORD_KEY)), one_array(batch.column(PARTITION_PATH))
