"""Conditions as texts of the plain forms: columns compared with literals, joined by AND, OR, NOT and parentheses.

Nearly all conditions are of these forms, and loading sqlglot takes longer than a small scan. What is not, sqlglot reads
(:mod:`lakeindex.predicates.condition_text`): every other form, and every mistake, which it can tell the place of. So
nothing is refused here, and what is read here has the nodes that sqlglot's tree has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from lakeindex.errors import UsageError
from lakeindex.predicates.making import Maker, all_of, one_of
from lakeindex.predicates.nodes import And, Call, Column, Comparison, Is, IsNull, Node, Not, Operand, TextTest
from lakeindex.predicates.values import Family, Literal, family_of

_TOKENS: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
    | (?P<bytes>[xX]'(?:[0-9a-fA-F]{2})*'(?!'))
    | (?P<text>'(?:[^']|'')*')
    | (?P<name>"[^"]+"(?!")|`[^`]+`(?!`))
    | (?P<number>(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?!['"`\w]))
    | (?P<sign><=|>=|<>|!=|=|<|>|[(),.]|-(?=[0-9.])(?<!--))
    """,
    re.VERBOSE,
)
_RESERVED: Final = frozenset(
    {
        *("and", "any", "as", "between", "case", "connect_by_root", "create", "cross", "current_catalog"),
        *("current_date", "current_time", "current_timestamp", "current_user", "distinct", "drop", "else", "escape"),
        *("except", "false", "fetch", "for", "from", "glob", "having", "if", "ilike", "in", "inner", "insert"),
        *("intersect", "interval", "into", "is", "join", "lateral", "like", "localtime", "localtimestamp", "not"),
        *("notnull", "null", "on", "or", "outer", "partitioned_by", "qualify", "regexp", "returning", "revoke"),
        *("rlike", "rollback", "select", "session_user", "straight_join", "table", "tablesample", "then", "true"),
        *("uncache", "union", "using", "when", "where", "with", "xor"),
    }
)
"""Words that are no names without quotes, except where they stand for what the forms have them for."""
_COMPARISONS: Final = {
    "=": Comparison.EQUAL,
    "!=": Comparison.NOT_EQUAL,
    "<>": Comparison.NOT_EQUAL,
    "<": Comparison.LESS,
    "<=": Comparison.LESS_EQUAL,
    ">": Comparison.GREATER,
    ">=": Comparison.GREATER_EQUAL,
}
_TESTS: Final = {"starts_with": TextTest.STARTS_WITH, "ends_with": TextTest.ENDS_WITH, "contains": TextTest.CONTAINS}
_FUNCTIONS: Final = frozenset({"lower", "upper", "length"})
_MOMENTS: Final = ("date", "timestamp")
_FOLLOW: Final = ("", ")", "and", "or")
_MOST_DEPTH: Final = 50


def read_plain(text: str, schema: pa.Schema) -> Node | None:
    """The condition that a text says, if it is of the plain forms and says nothing that is not valid; else None."""
    tokens, at = [], 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None or found.lastgroup is None:
            return None
        if found.lastgroup != "space":
            tokens.append((found.lastgroup, found.group()))
        at = found.end()
    reader = _Plain(text, schema, tokens)
    try:
        node = reader.any_of(0)
        return node if reader.is_at_end else None
    except (_OtherFormError, UsageError):
        return None


class _OtherFormError(Exception):
    """Not of the plain forms."""


class _Plain(Maker):
    """Reads tokens, from the first to the last, each once."""

    def __init__(self, text: str, schema: pa.Schema, tokens: list[tuple[str, str]]) -> None:
        super().__init__(text, schema)
        self._tokens = [*tokens, ("end", "")]
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._tokens[self._at][0] == "end"

    def _next(self, kind: str, *texts: str) -> str | None:
        """Takes the next token, if it is of this kind and one of these (in lower case; any, if none is said)."""
        found, text = self._tokens[self._at]
        if found != kind or (texts and text.lower() not in texts):
            return None
        self._at += 1
        return text

    def _need(self, kind: str, *texts: str) -> str:
        found = self._next(kind, *texts)
        if found is None:
            raise _OtherFormError
        return found

    def any_of(self, depth: int) -> Node:
        return self._chain("or", one_of, lambda: self._chain("and", all_of, lambda: self._one(depth)))

    def _chain(self, word: str, join: Callable[[list[Node]], Node], part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._next("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else join(parts)

    def _one(self, depth: int) -> Node:
        """A condition without AND and OR, or one in parentheses."""
        if depth > _MOST_DEPTH:
            raise _OtherFormError
        if self._next("word", "not"):
            return Not(self._one(depth + 1))
        if self._next("sign", "("):
            node = self.any_of(depth + 1)
            self._need("sign", ")")
        else:
            node = self._test()
        if self._tokens[self._at][1].lower() not in _FOLLOW:
            raise _OtherFormError
        return node

    def _test(self) -> Node:
        if self._is_literal():
            literal, how = self._literal(), _COMPARISONS[self._need("sign", *_COMPARISONS)]
            return self._compare_with(self._operand(), how.flipped, literal)
        test = self._next("word", *_TESTS) if self._opens else None
        if test:
            self._need("sign", "(")
            column = self._text_of(self._column())
            self._need("sign", ",")
            node = self._matches(column, _TESTS[test.lower()], self._text_literal())
            self._need("sign", ")")
            return node
        operand = self._operand()
        sign = self._next("sign", *_COMPARISONS)
        if sign and self._is_literal():
            return self._compare_with(operand, _COMPARISONS[sign], self._literal())
        if sign:
            return self._two_columns(operand, _COMPARISONS[sign], self._operand())
        return self._with_word(operand)

    def _with_word(self, operand: Operand) -> Node:
        if self._next("word", "is"):
            is_negated, answer = bool(self._next("word", "not")), self._need("word", "null", "true", "false").lower()
            node: Node = IsNull(operand)
            if answer != "null":
                node = Is(self._is_true(operand), answer == "true")
            return Not(node) if is_negated else node
        is_negated = bool(self._next("word", "not"))
        word = self._next("word", "in", "between", "like", "ilike")
        if word is None:
            if is_negated:
                raise _OtherFormError
            return self._is_true(operand)
        node = self._ranges[word.lower()](self, operand)
        return Not(node) if is_negated else node

    def _in(self, operand: Operand) -> Node:
        self._need("sign", "(")
        literals = [self._literal()]
        while self._next("sign", ","):
            literals.append(self._literal())
        self._need("sign", ")")
        return self._one_of(operand, literals)

    def _between(self, operand: Operand) -> Node:
        low = self._compare_with(operand, Comparison.GREATER_EQUAL, self._literal())
        self._need("word", "and")
        return And((low, self._compare_with(operand, Comparison.LESS_EQUAL, self._literal())))

    def _like(self, operand: Operand, test: TextTest = TextTest.LIKE) -> Node:
        pattern = self._text_literal()
        escape = self._text_literal() if self._next("word", "escape") else ""
        if len(escape) > 1:
            raise _OtherFormError
        return self._matches(self._text_of(operand), test, pattern, escape)

    _ranges: ClassVar[dict[str, Callable[[_Plain, Operand], Node]]] = {
        "in": _in,
        "between": _between,
        "like": _like,
        "ilike": partial(_like, test=TextTest.ILIKE),
    }

    @property
    def _opens(self) -> bool:
        """Whether the token behind the next one is a parenthesis."""
        return self._tokens[self._at + 1 : self._at + 2] == [("sign", "(")]

    def _operand(self) -> Operand:
        name = self._next("word", *_FUNCTIONS) if self._opens else None
        if name is None:
            return self._column()
        self._need("sign", "(")
        column = self._text_of(self._column())
        self._need("sign", ")")
        return Call(name.lower(), column, pa.int32() if name.lower() == "length" else pa.string())

    def _column(self) -> Column:
        names = [self._name()]
        while self._next("sign", "."):
            names.append(self._name())
        return self._column_of(tuple(names))

    def _name(self) -> str:
        quoted = self._next("name")
        if quoted:
            return quoted[1:-1]
        word = self._need("word")
        if word.lower() in _RESERVED:
            raise _OtherFormError
        return word

    def _text_of(self, column: Operand) -> Operand:
        if family_of(column.type) is not Family.TEXT:
            raise _OtherFormError
        return column

    def _is_literal(self) -> bool:
        kind, text = self._tokens[self._at]
        if kind == "word":
            is_moment = text.lower() in _MOMENTS and self._tokens[self._at + 1][0] == "text"
            return is_moment or text.lower() in ("true", "false", "null")
        return kind in ("text", "number", "bytes") or text == "-"

    def _literal(self) -> Literal | None:
        """A value; None is null."""
        if self._next("word", "null"):
            return None
        truth = self._next("word", "true", "false")
        if truth:
            return Literal(truth.lower(), Family.BOOLEAN)
        if self._next("word", *_MOMENTS):
            return Literal(self._text_literal(), Family.MOMENT)
        data = self._next("bytes")
        if data:
            return Literal(data[2:-1].lower(), Family.BYTES)
        if self._tokens[self._at][0] == "text":
            return Literal(self._text_literal(), Family.TEXT)
        minus = self._next("sign", "-") or ""
        return Literal(minus + self._need("number"), Family.NUMBER)

    def _text_literal(self) -> str:
        return self._need("text")[1:-1].replace("''", "'")
