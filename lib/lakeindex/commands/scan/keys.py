"""Record keys that a condition asks for: ``id = 'a'`` and ``id IN (...)`` go through the index, as ``get`` does."""

from __future__ import annotations

import itertools
import math
from typing import Final

import pyarrow as pa

from lakeindex.predicates.predicate import Predicate
from lakeindex.predicates.values import array_of
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.keys.key_spec import KeySpec
from lakeindex.write.keys.keys import KeyGenerator

_MOST_KEYS: Final = 1_000_000
_PLAIN: Final = (pa.types.is_string, pa.types.is_int32, pa.types.is_int64)


def asked_keys(predicate: Predicate, spec: KeySpec | None, schema: pa.Schema) -> pa.Array | None:
    """Record keys of which every chosen row has one, distinct, ascending; None if the condition names none.

    Args:
        predicate: the condition.
        spec: how keys are made; None if that is not known.
        schema: the table's columns.
    """
    stored = predicate.equal_values((RECORD_KEY,))
    if stored is not None:
        return pa.array(list(stored), pa.string())
    if spec is None:
        return None
    fields = spec.record_key_fields
    values = [predicate.equal_values(tuple(name.split("."))) for name in fields]
    kinds = [schema.field(name).type if name in schema.names else None for name in fields]
    if any(one is None for one in values) or not all(_is_plain(kind) for kind in kinds):
        return None
    known = [one for one in values if one is not None]
    if math.prod(map(len, known)) > _MOST_KEYS:
        return None
    rows = list(zip(*itertools.product(*known), strict=True)) or [() for _ in fields]
    columns = {name: array_of(list(column), kind) for name, column, kind in zip(fields, rows, kinds, strict=True)}
    keys, problems = KeyGenerator(spec).record_keys(pa.table(columns))
    texts = {key for key, problem in zip(keys.to_pylist(), problems.to_pylist(), strict=True) if problem is None}
    return pa.array(sorted(texts), pa.string())


def _is_plain(kind: pa.DataType | None) -> bool:
    return kind is not None and any(is_plain(kind) for is_plain in _PLAIN)
