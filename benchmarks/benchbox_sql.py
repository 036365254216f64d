"""SQL on lakeindex tables, as a user would move it there: DuckDB computes what SQL reads, lakeindex does every write.

A statement is done *natively* if lakeindex is told what to do: the condition and the new values of an UPDATE, the
condition of a DELETE, the rows of an INSERT, the file of a COPY, the source of a MERGE with its conditions and, where
matched rows are set to something else than the source's row, a merge function. A subquery that stands alone is asked
before, and its value put in its place. Where conditions and values have no word for a part, DuckDB computes the changed
rows, or the keys of those that go, and lakeindex upserts or deletes them by key: *computed*. What is left is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

import lakeindex
from lakeindex.errors import InputError, QuarantineExceededError, SchemaMismatchError, UsageError

#: Of tables of which SQL's schema says no primary key; of others without one the first column is the record key.
Keys = Mapping[str, tuple[str, ...]]


class How(IntEnum):
    """How an operation was done; of several statements the last of these."""

    NATIVE = 0
    COMPUTED = 1
    NO_WORD = 2
    NOT_RUN = 3
    FAILED = 4


class NoWordError(Exception):
    """lakeindex has no word for a statement."""


@dataclass
class Done:
    """What was done for some statements.

    Attributes:
        calls: what lakeindex was asked for, a call each.
        why: why rows were computed.
        rows: what RETURNING gave.
    """

    how: How = How.NATIVE
    calls: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] | None = None

    def computed(self, why: str) -> None:
        self.how = max(self.how, How.COMPUTED)
        self.why.append(why)


def parsed(sql: str) -> list[exp.Expr]:
    """Statements of DuckDB's SQL."""
    return [tree for tree in sqlglot.parse(sql, read="duckdb") if tree is not None]


def targets(trees: Sequence[exp.Expr]) -> list[str]:
    """Names of the tables that statements write to."""
    kinds = exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Copy, exp.TruncateTable, exp.Create, exp.Alter, exp.Drop
    found = [tree.find(exp.Table) for tree in trees if isinstance(tree, kinds)]
    return list(dict.fromkeys(table.name for table in found if table is not None))


def type_text(kind: pa.DataType) -> str:
    """A column's type as DuckDB writes it."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    known = {
        pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.string(): "VARCHAR", pa.date32(): "DATE",
        pa.bool_(): "BOOLEAN", pa.binary(): "BLOB", pa.float64(): "DOUBLE", pa.float32(): "FLOAT",
    }  # fmt: skip
    return known.get(kind, "TIMESTAMPTZ" if pa.types.is_timestamp(kind) and kind.tz else "TIMESTAMP")


class Lake:
    """lakeindex tables of one folder, changed by DuckDB's SQL.

    Attributes:
        duck: what is read is computed here, over views of scans.
    """

    def __init__(self, folder: Path, keys: Keys | None = None, table_version: int = 9) -> None:
        self.folder = folder
        self.duck = duckdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'")
        self._keys = dict(keys or {})
        self._version = table_version

    def names(self) -> list[str]:
        return sorted(one.parent.name for one in self.folder.glob("*/.hoodie"))

    def table(self, name: str) -> lakeindex.LakeTable:
        return lakeindex.open_table(self.folder / name)

    def look(self, *trees: exp.Expr) -> None:
        """Views of all tables that expressions read, as they are now."""
        asked = {table.name.lower() for tree in trees for table in tree.find_all(exp.Table)}
        views = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        shown = {str(name) for (name,) in self.duck.execute(views).fetchall()}
        there = self.names()
        for name in shown - set(there):
            self.duck.execute(f'DROP VIEW "{name}"')
        for name in there:
            if name in asked or (name not in shown and asked & {"tables", "views", "columns"}):
                self.table(name).scan().to_duckdb(self.duck).create_view(name, replace=True)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a SELECT."""
        self.look(*parsed(sql))
        return self.duck.execute(sql).fetchall()

    def execute(self, sql: str, done: Done | None = None) -> Done:
        """All statements.

        Args:
            done: takes what is done, also if one of them fails.

        Raises:
            NoWordError: there is none for one of them; those before it are done.
            LakeIndexError: lakeindex failed.
            duckdb.Error: what it reads cannot be computed.
        """
        done = done or Done()
        for tree in parsed(sql):
            work = self._work.get(type(tree))
            if work is None:
                raise NoWordError(f"{tree.key.upper()} is no statement of a table")
            work(self, tree, done)
        return done

    def _relation(self, sql: str, *trees: exp.Expr) -> duckdb.DuckDBPyRelation:
        self.look(*trees)
        return self.duck.sql(sql)

    # --- definitions

    def _create(self, tree: exp.Create, done: Done) -> None:
        if tree.args["kind"] != "TABLE":
            raise NoWordError(f"CREATE {tree.args['kind']}: {_NO_WORDS[tree.args['kind']]}")
        name = tree.find(exp.Table).name
        source = tree.args.get("expression")
        if source is not None:
            rows = self._relation(_duck(source), source)
            self._make(name, {"like": rows}, list(rows.columns), done)
            self.table(name).bulk_insert(self._relation(_duck(source), source))
            done.calls.append("bulk_insert")
            return
        keys = [one.find_ancestor(exp.ColumnDef).name for one in tree.find_all(exp.PrimaryKeyColumnConstraint)]
        keys += [one.name for key in tree.find_all(exp.PrimaryKey) for one in key.expressions]
        columns = [one for one in tree.this.expressions if isinstance(one, exp.ColumnDef)]
        text = ", ".join(one.sql(dialect="spark").replace(" PRIMARY KEY", " NOT NULL") for one in columns)
        self._make(name, {"schema": text}, [one.name for one in columns], done, keys)

    def _make(
        self, name: str, columns: dict[str, Any], names: Sequence[str], done: Done, keys: Sequence[str] = ()
    ) -> None:
        chosen = keys or self._keys.get(name) or names[:1]
        lakeindex.create_table(self.folder / name, key=list(chosen), table_version=self._version, **columns)
        done.calls.append("create_table")

    def _drop(self, tree: exp.Drop, _done: Done) -> None:
        name, kind = tree.find(exp.Table).name, tree.args["kind"]
        if kind != "TABLE":
            raise NoWordError(f"DROP {kind}: {_NO_WORDS[kind]}")
        if name in self.names():
            raise NoWordError("DROP TABLE: a table is a folder, which a file tool removes")

    def remove(self, name: str) -> None:
        """What DROP TABLE would do: the table's folder, and those of its runs."""
        for folder in (self.folder / name, self.folder / f"{name}.lakeindex"):
            shutil.rmtree(folder, ignore_errors=True)

    def _alter(self, tree: exp.Alter, _done: Done) -> None:
        kind = type(tree.args["actions"][0])
        words = {
            exp.ColumnDef: "ADD COLUMN by itself: a column comes with the first rows that have it (schema_mode='add')",
            exp.Drop: "DROP COLUMN: columns stay in a table's schema",
            exp.RenameColumn: "RENAME COLUMN: columns are known by their names",
        }
        raise NoWordError(words.get(kind, f"ALTER TABLE: {kind.__name__}"))

    def _truncate(self, tree: exp.TruncateTable, done: Done) -> None:
        self.table(tree.find(exp.Table).name).truncate()
        done.calls.append("truncate")

    def _select(self, tree: exp.Expr, done: Done) -> None:
        done.rows = self._relation(_duck(tree), tree).fetchall()

    # --- rows

    def _insert(self, tree: exp.Insert, done: Done) -> None:
        table = self.table(tree.find(exp.Table).name)
        named = [one.name for one in tree.this.expressions] if isinstance(tree.this, exp.Schema) else None
        source = tree.expression.copy()
        source.set("with_", tree.args.get("with_") or source.args.get("with_"))
        rows = self._relation(_of_columns(_duck(source), named or table.schema.names, table.schema), source)
        conflict = tree.args.get("conflict")
        action = None if conflict is None else str(conflict.args.get("action"))
        if action not in (None, "DO NOTHING"):
            raise NoWordError(f"INSERT ... ON CONFLICT {action}")
        skips = tree.args.get("alternative") == "IGNORE" or action is not None
        before = _last(table)
        table.insert(rows, on_conflict="ignore" if skips else "error")
        done.calls.append("insert, on_conflict" if skips else "insert")
        self._returning(tree, table, before, done)

    def _copy(self, tree: exp.Copy, done: Done) -> None:
        name = tree.find(exp.Table).name
        table = self.table(name)
        file = tree.args["files"][0].name
        method = table.insert if table.count() else table.bulk_insert
        try:
            options, more = _copy_options(tree)
            method(file, options=options, **more)
            done.calls.append(f"{method.__name__} of the file")
            return
        except (UsageError, InputError, SchemaMismatchError, QuarantineExceededError) as error:
            done.computed(f"COPY: {error.message}")
        columns = ", ".join(f'"{one.name}" {type_text(one.type)}' for one in table.schema)
        self.duck.execute(f"CREATE OR REPLACE TEMP TABLE staged ({columns})")
        staged = tree.copy()
        staged.find(exp.Table).replace(exp.to_table("staged"))
        self.duck.execute(_duck(staged))
        method(self.duck.sql("FROM staged"))
        done.calls.append(f"{method.__name__} of rows that DuckDB read from the file")

    def _update(self, tree: exp.Update, done: Done) -> None:
        table = self.table(tree.this.name)
        before = _last(table)
        try:
            table.update(self._values(tree, table.schema), where=self._where(tree))
            done.calls.append("update")
        except UsageError as error:
            done.computed(f"UPDATE: {error.message}")
            values = {one.this.name: one.expression for one in tree.expressions}
            rows = self._relation(_changed(tree, values, table), tree)
            table.upsert(rows, partial=True, insert_if="false")
            done.calls.append("upsert of computed columns")
        self._returning(tree, table, before, done)

    def _delete(self, tree: exp.Delete, done: Done) -> None:
        table = self.table(tree.this.name)
        before = _last(table)
        where = tree.args.get("where")
        try:
            table.delete(where=self._where(tree))
            done.calls.append("delete where")
        except UsageError as error:
            done.computed(f"DELETE: {error.message}")
            keys = ", ".join(f'{tree.this.alias_or_name}."{name}"' for name in _keys(table))
            sql = f"SELECT {keys} FROM {_duck(tree.this)}" + ("" if where is None else f" {_duck(where)}")
            table.delete(self._relation(sql, tree))
            done.calls.append("delete of computed keys")
        self._returning(tree, table, before, done)

    def _values(self, tree: exp.Update, schema: pa.Schema) -> dict[str, str]:
        if tree.args.get("from_") is not None:
            raise UsageError("FROM names another table")
        texts = {one.this.name: self._text(one.expression, tree.this) for one in tree.expressions}
        return {name: _stored(text, schema.field(name).type) for name, text in texts.items()}

    def _where(self, tree: exp.Update | exp.Delete) -> str:
        where = tree.args.get("where")
        return "true" if where is None else self._text(where.this, tree.this)

    def _text(self, tree: exp.Expr, table: exp.Table) -> str:
        """An expression in lakeindex's language: subqueries are values, columns have no table.

        Raises:
            UsageError: a subquery depends on the row.
        """
        given = exp.Paren(this=tree.copy())
        for one in list(given.find_all(exp.In)):
            if one.args.get("query") is not None:
                found = self._asked(one.args["query"].this)
                values = [exp.convert(row[0]) for row in found]
                one.replace(exp.In(this=one.this, expressions=values) if values else exp.false())
        if given.find(exp.Exists) is not None:
            raise UsageError("a subquery depends on the row")
        for query in list(given.find_all(exp.Subquery)):
            ((value,),) = self._asked(query.this)
            query.replace(exp.convert(value))
        for column in given.find_all(exp.Column):
            if column.table in (table.alias_or_name, table.name):
                column.set("table", None)
        return given.this.sql()

    def _asked(self, query: exp.Expr) -> list[tuple[Any, ...]]:
        try:
            return self._relation(_duck(query), query).fetchall()
        except duckdb.BinderException:
            raise UsageError("a subquery depends on the row") from None

    def _returning(self, tree: exp.Expr, table: lakeindex.LakeTable, before: str | None, done: Done) -> None:
        """RETURNING is what the commit changed: the rows after it, of a deletion before it."""
        wanted = tree.args.get("returning")
        if wanted is None:
            return
        changed = table.changes(since=before).to_arrow()
        kinds = "'delete'" if isinstance(tree, exp.Delete) else "'insert', 'update_postimage'"
        columns = ", ".join(_duck(one) for one in wanted.expressions)
        self.duck.register("changed", changed)
        done.rows = self.duck.sql(f"SELECT {columns} FROM changed WHERE _change_type IN ({kinds})").fetchall()
        done.calls.append("changes")

    # --- MERGE

    def _merge(self, tree: exp.Merge, done: Done) -> None:
        table = self.table(tree.this.name)
        before = _last(table)
        merge = _Merge.of(tree, table)
        why = merge.why_computed()
        if why is None:
            self._merged(merge, table, done)
        else:
            done.computed(f"MERGE: {why}")
            table.upsert(self._relation(merge.changed_rows(), tree))
            done.calls.append("upsert of computed rows")
        self._returning(tree, table, before, done)

    def _merged(self, merge: _Merge, table: lakeindex.LakeTable, done: Done) -> None:
        """One upsert of the source."""
        self.look(merge.tree)
        if self.duck.sql(merge.twice()).fetchall():
            raise SourceTwiceError("MERGE: a row of the target matches several of the source")
        if merge.insert is None:
            table.upsert(self.duck.sql(merge.set_columns()), partial=True, insert_if="false")
            done.calls.append("upsert, partial, insert_if")
            return
        source = self.duck.sql(merge.source_rows()).to_arrow_table()
        more: dict[str, Any] = {} if merge.insert_if is None else {"insert_if": merge.insert_if}
        if merge.updates:
            more["merge"] = MergeFunction(merge.set_rows(), source)
        else:
            more["update_if"] = "false"
        table.upsert(self.duck.sql(merge.inserted_rows()), **more)
        done.calls.append(", ".join(["upsert", *more]))

    _work: ClassVar[dict[type[exp.Expr], Callable[[Any, Any, Done], None]]] = {
        exp.Create: _create,
        exp.Drop: _drop,
        exp.Alter: _alter,
        exp.TruncateTable: _truncate,
        exp.Select: _select,
        exp.Insert: _insert,
        exp.Copy: _copy,
        exp.Update: _update,
        exp.Delete: _delete,
        exp.Merge: _merge,
    }


class SourceTwiceError(Exception):
    """SQL refuses such a MERGE, too."""


@dataclass(frozen=True)
class MergeFunction:
    """What MERGE sets in stored rows: SQL over them (``old``) and the source (``given``)."""

    sql: str
    given: pa.Table

    def __call__(self, old: pa.Table, new: pa.Table) -> pa.Table:
        duck = duckdb.connect()
        duck.register("old", old)
        duck.register("given", self.given)
        return duck.sql(self.sql).to_arrow_table().cast(new.schema)


@dataclass(frozen=True)
class _Merge:
    """A MERGE, taken apart.

    Attributes:
        on: of the target's columns that are compared, the source's expression.
        updates: WHEN MATCHED clauses: their condition and what they set.
        insert: values of a row that is inserted, by column.
    """

    tree: exp.Merge
    schema: pa.Schema
    keys: tuple[str, ...]
    on: dict[str, exp.Expr]
    updates: tuple[tuple[exp.Expr | None, dict[str, exp.Expr]], ...]
    insert: dict[str, exp.Expr] | None
    insert_condition: exp.Expr | None
    by_source: exp.When | None

    @classmethod
    def of(cls, tree: exp.Merge, table: lakeindex.LakeTable) -> _Merge:
        target, source = tree.this.alias_or_name, tree.args["using"].alias_or_name
        on = {}
        for one in tree.args["on"].flatten() if isinstance(tree.args["on"], exp.And) else [tree.args["on"]]:
            left, right = one.this, one.expression
            if left.table != target:
                left, right = right, left
            on[left.name] = right
        updates, insert, condition, by_source = [], None, None, None
        for when in tree.args["whens"].expressions:
            then = when.args["then"]
            if when.args.get("source"):
                by_source = when
            elif when.args["matched"]:
                if not isinstance(then, exp.Update):
                    raise NoWordError(f"MERGE: {then.sql()}")
                values = {one.this.name: one.expression for one in then.expressions}
                updates.append((when.args.get("condition"), values))
            else:
                names, given = table.schema.names, then.expression
                listed = given.expressions if given else [exp.column(name, table=source) for name in names]
                insert, condition = dict(zip(names, listed, strict=True)), when.args.get("condition")
        return cls(tree, table.schema, _keys(table), on, tuple(updates), insert, condition, by_source)

    @property
    def source(self) -> str:
        return str(self.tree.args["using"].alias_or_name)

    def _from_source(self) -> str:
        """FROM, with the clauses' condition if all have the same one of the source alone."""
        only = self._only_condition()
        return f"FROM {_duck(self.tree.args['using'])}" + ("" if only is None else f" WHERE {_duck(only)}")

    def _only_condition(self) -> exp.Expr | None:
        """The condition of all clauses, if it is one of the source alone."""
        conditions = [one for one, _ in self.updates] + ([self.insert_condition] if self.insert is not None else [])
        first = conditions[0] if conditions else None
        if first is None or any(one != first for one in conditions):
            return None
        return first if all(column.table == self.source for column in first.find_all(exp.Column)) else None

    def _with(self) -> str:
        found = self.tree.args.get("with_")
        return "" if found is None else f"{_duck(found)} "

    @property
    def insert_if(self) -> str | None:
        """The condition of an insert over the row that would be inserted."""
        if self.insert_condition is None or self._only_condition() is not None:
            return None
        given = exp.Paren(this=self.insert_condition.copy())
        plain = {one.name: name for name, one in (self.insert or {}).items() if isinstance(one, exp.Column)}
        for column in list(given.find_all(exp.Column)):
            if column.name not in plain:
                raise NoWordError(f"MERGE: {column.sql()} is in no column of the row that is inserted")
            column.replace(exp.column(plain[column.name], table="new"))
        return str(given.this.sql())

    def why_computed(self) -> str | None:
        """Why DuckDB computes the rows; None: it need not."""
        if self.by_source is not None:
            return "WHEN NOT MATCHED BY SOURCE names rows that no row of a batch has the key of"
        if set(self.on) != set(self.keys):
            return f"ON compares {', '.join(self.on)}, and the record key is {', '.join(self.keys)}"
        alone = [one for one, _ in self.updates if one is not None and self._only_condition() is None]
        if self.insert is None and (len(self.updates) > 1 or alone or self._reads_target()):
            return "values of matched rows alone that depend on the stored row"
        return None

    def _reads_target(self) -> bool:
        values = [one for _, given in self.updates for one in given.values()]
        target = self.tree.this.alias_or_name
        return any(column.table == target for one in values for column in one.find_all(exp.Column))

    def twice(self) -> str:
        """A key that the source has more than once."""
        keys = ", ".join(_duck(self.on[name]) for name in self.keys)
        return f"{self._with()}SELECT {keys} {self._from_source()} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"

    def source_rows(self) -> str:
        return f"{self._with()}SELECT * {self._from_source()}"

    def set_columns(self) -> str:
        """Keys and what is set, where all of it is the source's."""
        chosen = {**{name: self.on[name] for name in self.keys}, **self.updates[0][1]}
        listed = ", ".join(f"{self._cast(name, one)}" for name, one in chosen.items())
        return f"{self._with()}SELECT {listed} {self._from_source()}"

    def inserted_rows(self) -> str:
        listed = ", ".join(self._cast(name, one) for name, one in (self.insert or {}).items())
        return f"{self._with()}SELECT {listed} {self._from_source()}"

    def _cast(self, name: str, value: exp.Expr) -> str:
        return f'CAST({_duck(value)} AS {type_text(self.schema.field(name).type)}) AS "{name}"'

    def _set(self, name: str) -> exp.Expr:
        """A column of a matched row: of the first clause whose condition holds, else as it was."""
        stored = exp.column(name, table=self.tree.this.alias_or_name)
        case = exp.Case(ifs=[], default=stored)
        for condition, values in self.updates:
            met = exp.true() if condition is None or self._only_condition() is not None else condition.copy()
            case.append("ifs", exp.If(this=met, true=values.get(name, stored).copy()))
        return case if case.args["ifs"] else stored

    def set_rows(self) -> str:
        """Matched rows with what is set, of ``old`` and ``given``, in the order of ``old``."""
        target, source = self.tree.this.alias_or_name, self.source
        listed = ", ".join(self._cast(name, self._set(name)) for name in self.schema.names)
        numbered = f"(SELECT row_number() OVER () AS _row, * FROM old) AS {target}"
        joined = f"{numbered} JOIN given AS {source} ON {_duck(self.tree.args['on'])}"
        return f"SELECT {listed} FROM {joined} ORDER BY {target}._row"

    def changed_rows(self) -> str:
        """Rows to upsert, those to delete with their mark."""
        target, using = self.tree.this, _duck(self.tree.args["using"])
        on, name = _duck(self.tree.args["on"]), target.alias_or_name
        listed = ", ".join(self._cast(column, self._set(column)) for column in self.schema.names)
        parts = [f"SELECT {listed}, false AS _hoodie_is_deleted FROM {_duck(target)} JOIN {using} ON {on}"]
        if self.insert is not None:
            met = "" if self.insert_condition is None else f" AND {_duck(self.insert_condition)}"
            listed = ", ".join(self._cast(column, one) for column, one in self.insert.items())
            parts.append(f"SELECT {listed}, false FROM {using} WHERE NOT EXISTS (FROM {_duck(target)} WHERE {on}){met}")
        if self.by_source is not None:
            condition = self.by_source.args.get("condition")
            met = "" if condition is None else f" AND {_duck(condition)}"
            parts.append(f"SELECT {name}.*, true FROM {_duck(target)} WHERE NOT EXISTS (FROM {using} WHERE {on}){met}")
        return self._with() + " UNION ALL ".join(parts)


_NO_WORDS: Final = {
    "VIEW": "a lake of tables has no views",
    "INDEX": "the record key is indexed, other columns have statistics by file and row group",
}


def _duck(tree: exp.Expr) -> str:
    return tree.sql(dialect="duckdb")


def _last(table: lakeindex.LakeTable) -> str | None:
    """The newest commit."""
    return max((one.instant for one in table.history()), default=None)


def _keys(table: lakeindex.LakeTable) -> tuple[str, ...]:
    return tuple(table.properties["hoodie.table.recordkey.fields"].split(","))


def _stored(text: str, kind: pa.DataType) -> str:
    """A value as SQL stores it: rounded to its column's digits."""
    tree = sqlglot.parse_one(text)
    if not pa.types.is_decimal(kind) or isinstance(tree, exp.Column | exp.Null):
        return text
    return f"CAST({text} AS DECIMAL({kind.precision}, {kind.scale}))"


def _of_columns(source: str, names: Sequence[str], schema: pa.Schema) -> str:
    """Rows of a query in the table's columns; those that are not named are null."""
    places = {name: number for number, name in enumerate(names)}
    listed = ", ".join(
        f'CAST({f"c{places[one.name]}" if one.name in places else "NULL"} AS {type_text(one.type)}) AS "{one.name}"'
        for one in schema
    )
    return f"SELECT {listed} FROM ({source}) AS given({', '.join(f'c{number}' for number in range(len(names)))})"


def _changed(tree: exp.Update, values: Mapping[str, exp.Expr], table: lakeindex.LakeTable) -> str:
    """Keys of the rows of an UPDATE, and what it sets."""
    name, schema = tree.this.alias_or_name, table.schema
    listed = [f"{name}.{key}" for key in _keys(table)]
    for column, one in values.items():
        listed.append(f'CAST({_duck(one)} AS {type_text(schema.field(column).type)}) AS "{column}"')
    others = "" if tree.args.get("from_") is None else f", {_duck(tree.args['from_'].this)}"
    where = "" if tree.args.get("where") is None else f" {_duck(tree.args['where'])}"
    return f"SELECT {', '.join(listed)} FROM {_duck(tree.this)}{others}{where}"


def _copy_options(tree: exp.Copy) -> tuple[dict[str, str], dict[str, int]]:
    """How a file is written, in lakeindex's options.

    Raises:
        UsageError: there is no option for it.
    """
    options: dict[str, str] = {}
    more: dict[str, int] = {}
    names = {"DELIMITER": "delimiter", "QUOTE": "quote", "NULLSTR": "null", "HEADER": "header"}
    for one in tree.args["params"]:
        name, value = one.name.upper(), one.expression
        text = str(value.this).lower() if isinstance(value, exp.Boolean) else value.name
        if name == "FORMAT":
            options["lakeindex.input.format"] = text.lower()
        elif name in names:
            options[f"lakeindex.csv.{names[name]}"] = text
        elif name == "IGNORE_ERRORS":
            more["max_quarantined"] = 1_000_000
        elif name not in ("ESCAPE", "COMPRESSION"):
            raise UsageError(f"there is no option for {name}")
    return options, more
