"""What is read without sqlglot is read as sqlglot reads it, or not at all."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokens import Tokenizer, TokenType

from lakeindex.errors import UsageError
from lakeindex.predicates.condition_text import parse_condition
from lakeindex.predicates.nodes import Node
from lakeindex.predicates.plain_text import read_plain

SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("n", pa.decimal128(10, 2)),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("y", pa.binary()),
        ("r", pa.struct([("x", pa.int64()), ("two words", pa.struct([("z", pa.string())]))])),
        ("date", pa.date32()),
        ("Key", pa.int64()),
    ]
)
PLAIN = """
a = 1
a != -1
a <> 1.5
a <-1
a >= .5
n<2e3
(a = 1)
((a = 1 OR a = 2)) AND NOT b
a = 1 AND a = 2 AND (a = 3 AND a = 4) OR a = 5 OR (a = 6 OR a = 7)
NOT a = 1 AND NOT NOT b
NOT (a = 1 OR b)
b
b AND b = true OR b != FALSE
b = null
5 < a
'x' = s
a = Key
f <= n
s = 'it''s'
s = ''
s = '''' OR s = 'a\\'
s = 'über -- no /* comment */ "or" `name` AND a = 1'
s IN ('a', 'b''c', null)
a IN (1)
a NOT IN (3, 2, 3, -1)
a BETWEEN 1 AND 5 AND b
a NOT BETWEEN -1 AND null OR b
NOT a BETWEEN 1 AND 5
a IS NULL AND a IS NOT NULL
b IS TRUE OR b IS NOT FALSE
NOT s LIKE '%a_b%'
s NOT LIKE 'a!%b%' ESCAPE '!'
s ILIKE 'A%'
s NOT ILIKE 'A%' AND b
starts_with(s, 'a') AND NOT ends_with(s, 'b') OR CONTAINS(s, '''')
lower(s) = 'a' OR UPPER(s) IN ('A', 'B') OR length(s) > 3 OR 'x' < lower(s)
lower(s) LIKE 'a%' AND length(s) BETWEEN 1 AND 2 AND lower(s) = upper(s)
d = '2026-01-31' AND date < DATE '2026-01-31'
t >= timestamp '2026-01-31 12:00:00' AND d IN (date '2026-01-01', '2026-02-01')
y = x'00ff' OR y = X'' OR x'0A' = y
r.x = 1 AND r . x > 0
"r"."two words".z = 'a' OR `r`.`two words`.`z` LIKE 'a%'
"a" = 1 and `Key` = 2 Or "date" is Not null
a\t=\r1
""".strip().split("\n")
OTHER = """
a + 1 = 2
a = 1 = true
a = (1)
(a) = 1
(a = 1) IS TRUE
a IS DISTINCT FROM 1
a <=> 1
a == 1
a = - 1
a = --1
a = 1 -- comment
a = /* comment */ 1
a = 1;
a = 1 b
s = 'a' 'b'
s = "x"
s = E'a' OR s = N'a'
abs(a) = 1
CAST('2026-01-01' AS DATE) = d
true
1 = 1
a IN ()
a IN (a)
a BETWEEN a AND 2
s LIKE 'a' ESCAPE '!!'
a NOT = 1
a NOT
"a""b" = 1
1a = 1
missing = 1
s = 1
lower(a) = '1'
a LIKE '1'
a >> 1 = 2
a => 1
r.x.y = 1
r = 1
å = 1
s = 'a
(a = 1
a = 1)
AND
x'0' = y
""".strip().split("\n")
TOKENS = """
a n f s b d t y r.x "a" `r`.x date Key lower(s) length(s) starts_with(s, 1 -1 2.5 1e2 'a' 'it''s' '2026-01-31' x'0a' null true
false DATE TIMESTAMP = != <> < <= > >= <=> == => - -- + * ( ) , . AND OR NOT IN (1, 2) BETWEEN IS LIKE ILIKE ESCAPE
DISTINCT FROM CASE WHEN ; /* */ x missing
""".replace("(1, 2)", "(1,2)").split()


def by_sqlglot(text: str, schema: pa.Schema = SCHEMA) -> Node | None:
    try:
        return parse_condition(text, schema)
    except UsageError:
        return None


def test_plain_forms_are_read_as_sqlglot_reads_them():
    for text in PLAIN:
        found = read_plain(text, SCHEMA)
        assert found is not None, text
        assert found == by_sqlglot(text), text


def test_other_forms_and_mistakes_are_left_to_sqlglot():
    assert [text for text in OTHER if read_plain(text, SCHEMA) is not None] == []
    deep = "(" * 60 + "a = 1" + ")" * 60
    assert read_plain(deep, SCHEMA) is None
    assert read_plain(deep[20:-20], SCHEMA) == by_sqlglot("a = 1")


@pytest.mark.filterwarnings("ignore")
def test_no_random_text_is_read_otherwise(caplog: pytest.LogCaptureFixture):
    caplog.set_level("CRITICAL", "sqlglot")
    rng, read = np.random.default_rng(7), 0
    pieces = [*PLAIN, *(f"({text})" for text in PLAIN if "'" not in text)]
    for _ in range(2500):
        if rng.random() < 0.5:
            text = " ".join(rng.choice(TOKENS, rng.integers(2, 8)))
        else:  # a valid one, or two joined, of which a word is another
            words = f" {rng.choice(['AND', 'OR', 'AND NOT', '='])} ".join(rng.choice(pieces, 2)).split(" ")
            if rng.random() < 0.7:
                words[rng.integers(len(words))] = str(rng.choice(TOKENS))
            text = " ".join(words)
        found = read_plain(text, SCHEMA)
        read += found is not None
        assert found is None or found == by_sqlglot(text), text
    assert read > 250


def test_reserved_words_are_columns_in_quotes_only():
    schema = pa.schema([("CURRENT_DATE", pa.int64()), ("current_date", pa.int64())])
    for word in schema.names:
        assert read_plain(f"{word} = 1", schema) is None
        assert read_plain(f"`{word}` = 1", schema) == by_sqlglot(f"`{word}` = 1", schema) is not None


def test_every_word_of_sqlglot_is_the_column_of_that_name_or_left_to_sqlglot():
    words = {*Tokenizer.KEYWORDS, *Parser.FUNCTIONS, *(one.name for one in TokenType)}
    words |= {kind.value for kind in exp.DataType.Type} | set(Parser.NO_PAREN_FUNCTION_PARSERS)
    read = 0
    for word in sorted(one.lower() for one in words if re.fullmatch("[A-Za-z_]+", one)):
        if word == "ok":
            continue
        schema = pa.schema([(word, pa.int64()), ("ok", pa.bool_()), ("r", pa.struct([(word, pa.int64())]))])
        for form in (
            ("ok AND {0} IN (1, 2)", "NOT 1 < {0}", "r.{0} = {0}", "{0} < 3 OR {0} IS NULL") if word != "r" else ()
        ):
            found = read_plain(form.format(word), schema)
            read += found is not None
            assert found is None or found == by_sqlglot(form.format(f'"{word}"'), schema), form.format(word)
    assert read > 2000
