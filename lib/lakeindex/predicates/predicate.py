"""A condition on rows to read, delete or update: what Arrow computes, and what is known without reading rows.

Pure: no storage and no table; :func:`predicate_of` takes the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache, reduce
from operator import and_
from typing import ClassVar, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero

from lakeindex.errors import UsageError, clipped, first_line
from lakeindex.frozen import ComparedInPart
from lakeindex.predicates.arrow_expressions import expression_of, text_of
from lakeindex.predicates.bounds import Bounds, Facts, answers, may_be_true
from lakeindex.predicates.nodes import And, Column, Compare, Comparison, Node, OneOf, Or, Path, Value, columns_of
from lakeindex.predicates.plain_text import read_plain
from lakeindex.predicates.values import Family, family_of, scalar_of
from lakeindex.time_spent import loading

Condition: TypeAlias = str | pc.Expression
"""SQL-like text, as behind WHERE, or a pyarrow expression."""

_MOST_KEYS: Final = 1_000_000
_INDEX: Final = re.compile(r"FieldPath\(")
_FORMAT: Final = ds.ParquetFileFormat()


class Predicate(ComparedInPart, dict=True):
    """A condition on the rows of a table. Rows for which it is false or null are not chosen.

    Attributes:
        text: as messages and reports show it.
        expression: as Arrow computes it.
        columns: top-level columns that it reads, in the table's order.
        node: its parts; None of a pyarrow expression, which cannot be looked into.
    """

    aside: ClassVar = frozenset({"expression"})
    text: str
    expression: pc.Expression
    columns: tuple[str, ...]
    node: Node | None
    schema: pa.Schema

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Columns of which facts help: those that the condition reads and that have an order."""
        if self.node is not None:
            return tuple(sorted(columns_of(self.node)))
        return tuple(path for name in self.columns for path in _leaves(self.schema.field(name)))

    def type_of(self, path: Path) -> pa.DataType:
        kind = self.schema.field(path[0]).type
        for name in path[1:]:
            kind = kind.field(name).type
        return kind

    def may_match(self, facts: Facts) -> bool:
        """Whether a row that agrees with the facts (in units of :attr:`type_of`) can be chosen; True if unknown."""
        if self.node is not None:
            return may_be_true(self.node, facts)
        return _may_match(self.expression, self.schema, self._guarantees(facts))

    def must_match(self, facts: Facts) -> bool:
        """Whether every row that agrees with the facts is chosen; False wherever that is not known."""
        return self.node is not None and answers(self.node, facts) == {True}

    def equal_values(self, path: Path) -> tuple[Value, ...] | None:
        """The values of a column of which one must be in every chosen row; None if the condition does not say."""
        found = None if self.node is None else _equal_values(self.node, path)
        return None if found is None else tuple(sorted(found))

    def filter(self, rows: pa.Table) -> pa.Table:
        """The chosen ones of some rows that have the condition's columns."""
        return rows.filter(self.mask(rows))

    def mask(self, rows: pa.Table) -> pa.Array:
        """Whether each of some rows is chosen: bool [rows], never null. In the caller's thread: who has several threads
        shares rows among them, and who has few rows waits longer for other threads than for the answer.

        Raises:
            UsageError: an expression of the caller's fails on a row, or compares what Arrow does not.
        """
        source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
        asked = acero.Declaration("project", acero.ProjectNodeOptions([self.expression], ["chosen"]), [source])
        try:
            found = asked.to_table(use_threads=False).column("chosen")
        # of a caller's own expression: a text is true, false or null of every row
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(
                f"the condition {clipped(self.text)} cannot be computed for every row: {first_line(error)}",
                culprit=clipped(self.text),
                hint="leave such rows out by another part of it, or give the condition as a text, whose quotients by "
                "zero are null",
            ) from error
        return pc.fill_null(found, fill_value=False).combine_chunks()

    def _guarantees(self, facts: Facts) -> list[pc.Expression]:
        found = ((path, self.type_of(path), bounds) for path, bounds in facts.items())
        return [said for path, kind, bounds in found for said in _guarantee(path, kind, bounds)]


def predicate_of(condition: Condition, schema: pa.Schema) -> Predicate:
    """The predicate that a condition says.

    Args:
        condition: SQL-like text, or a pyarrow expression that is true, false or null for each row.
        schema: columns that it may name, meta columns included.

    Raises:
        UsageError: it cannot be read, names no column of the table, or asks for what is not valid.
    """
    if isinstance(condition, pc.Expression):
        return _of_expression(condition, schema)
    if isinstance(condition, str) and not _is_whole(condition):
        raise UsageError(
            f"a condition cannot be {condition!r}: half of a character is no text",
            culprit=repr(condition),
            hint="correct it",
        )
    if not isinstance(condition, str) or not condition.strip():
        raise UsageError(
            f"a condition cannot be {condition!r}", culprit=repr(condition), hint="give a text or a pyarrow expression"
        )
    return _of_text(condition, schema)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=16)
def _of_text(condition: str, schema: pa.Schema) -> Predicate:
    """Kept: a run asks for its condition several times, and one of thousands of parts takes seconds to read."""
    node = read_plain(condition, schema)
    if node is None:
        with loading():
            from lakeindex.predicates.condition_text import parse_condition

        node = parse_condition(condition, schema)
    used = {path[0] for path in columns_of(node)}
    return Predicate(condition, expression_of(node), tuple(n for n in schema.names if n in used), node, schema)


def _of_expression(expression: pc.Expression, schema: pa.Schema) -> Predicate:
    text = text_of(expression)
    if _INDEX.search(text):
        raise UsageError(
            f"the condition {text} names a column by its place",
            culprit=text,
            hint="name columns: pyarrow.compute.field('name')",
        )
    _check_binds(expression, schema, text)
    columns = tuple(name for name in schema.names if not _binds(expression, _without(schema, name)))
    return Predicate(text, expression, columns, None, schema)


def _check_binds(expression: pc.Expression, schema: pa.Schema, text: str) -> None:
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(
            f"the condition {text} does not fit the table: {first_line(error)}",
            culprit=text,
            hint=f"its columns: {', '.join(f'{one.name} ({one.type})' for one in schema)}",
        ) from None


def _binds(expression: pc.Expression, schema: pa.Schema) -> bool:
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True


def _without(schema: pa.Schema, name: str) -> pa.Schema:
    return pa.schema([one for one in schema if one.name != name])


def _leaves(one: pa.Field, above: Path = ()) -> list[Path]:
    path = (*above, one.name)
    if pa.types.is_struct(one.type):
        return [leaf for inner in one.type for leaf in _leaves(inner, path)]
    return [] if family_of(one.type) is Family.OTHER else [path]


def _guarantee(path: Path, kind: pa.DataType, bounds: Bounds) -> Iterable[pc.Expression]:
    """What Arrow may take for granted of a column; nothing of floats, among which NaN may be."""
    column = pc.field(*path)
    if not bounds.may_have_value:
        return [pc.is_null(column)]
    if bounds.least is None or bounds.greatest is None or family_of(kind) is Family.FLOAT:
        return []
    ends = (scalar_of(bounds.least, kind), scalar_of(bounds.greatest, kind))
    within = (column >= ends[0]) & (column <= ends[1])
    return [within | pc.is_null(column) if bounds.may_be_null else within]


def _may_match(expression: pc.Expression, schema: pa.Schema, guarantees: list[pc.Expression]) -> bool:
    """Whether Arrow finds, by what it may take for granted, that no row meets an expression. No file is touched."""
    if not guarantees:
        return True
    fragment = _FORMAT.make_fragment(pa.BufferReader(b""), partition_expression=reduce(and_, guarantees))
    whole = ds.FileSystemDataset([fragment], schema, _FORMAT)
    return any(True for _ in whole.get_fragments(filter=expression))


def _equal_values(node: Node, path: Path) -> frozenset[Value] | None:
    match node:
        case Compare(operand=Column(path=found), how=Comparison.EQUAL) if found == path:
            return frozenset({node.value})
        case OneOf(operand=Column(path=found)) if found == path:
            return frozenset(node.values)
        case And():
            sets = [one for part in node.parts if (one := _equal_values(part, path)) is not None]
            return frozenset.intersection(*sets) if sets else None
        case Or():
            every = [_equal_values(part, path) for part in node.parts]
            joined = [one for one in every if one is not None]
            if len(joined) < len(every) or sum(map(len, joined)) > _MOST_KEYS:
                return None
            return frozenset().union(*joined)
        case _:
            return None
