r"""Options of BUCKET: how many buckets a partition has, and which strings of a key decide in which it is.

Counts by partition are rules ``regex,count;regex,count;...`` as in Hudi 1.1 and later: the first rule that is *found*
in the partition path counts (``java.util.regex.Matcher.find``: a part of the path is enough), else ``num.buckets``.
Neither of the two separators can stand in an expression; ``\x2C`` and ``\x3B`` stand for them.
"""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from lakeindex.errors import OptionError
from lakeindex.frozen import Frozen
from lakeindex.model import IndexSpec, IndexType
from lakeindex.options.option import Bound, Option, OptionArea, listed, some_text, whole

COUNT_OPTION: Final = "hoodie.bucket.index.num.buckets"
FIELDS_OPTION: Final = "hoodie.bucket.index.hash.field"
RULES_OPTION: Final = "hoodie.bucket.index.partition.expressions"
KEY_RULE_OPTION: Final = "lakeindex.bucket.key.rule"

MAX_BUCKETS: Final = 99_999_999
"""File ids begin with eight digits."""

_JAVA_ONLY: Final = re.compile(r"\\[QEpPhHvVRXGkZzN]|&&")
"""Parts of expressions that Java and Python read differently, or only Java knows."""

_PLAIN: Final = frozenset("_-/=:%")
_ASCII_END: Final = 0x80

Rule: TypeAlias = tuple[str, int]
"""An expression, and the bucket count of the partitions it is found in."""


class KeyRule(StrEnum):
    """Which release's way of taking a key apart (see :mod:`lakeindex.hashing.java_strings`)."""

    HUDI_1 = "1.x"
    HUDI_0_15 = "0.15"

    @property
    def other(self) -> KeyRule:
        return KeyRule.HUDI_0_15 if self is KeyRule.HUDI_1 else KeyRule.HUDI_1


class BucketLayout(Frozen):
    """Where keys belong.

    Attributes:
        count: buckets of a partition that no rule is about.
        rules: counts of others; the first that is found in the path.
    """

    count: int
    rules: tuple[Rule, ...] = ()
    fields: tuple[str, ...] = ()
    key_rule: KeyRule = KeyRule.HUDI_1

    def count_of(self, partition_path: str) -> int:
        for expression, count in self.rules:
            if _compiled(expression).search(partition_path):
                return count
        return self.count

    def with_count(self, count: int) -> BucketLayout:
        return BucketLayout(_checked_count(str(count), COUNT_OPTION), (), self.fields, self.key_rule)

    def with_partitions(self, counts: Mapping[str, int]) -> BucketLayout:
        """Other counts for some partitions; the rest stays. Rules of theirs that the new ones hide are left out."""
        new = [(exact_rule(path), _checked_count(str(counts[path]), path)) for path in sorted(counts)]
        hidden = {expression for expression, _ in new}
        kept = [one for one in self.rules if one[0] not in hidden]
        return BucketLayout(self.count, (*new, *kept), self.fields, self.key_rule)

    def options(self) -> dict[str, str]:
        """The layout as options, texts as they are bound; a Hudi writer takes all but the last of them."""
        return {
            COUNT_OPTION: str(self.count),
            FIELDS_OPTION: ",".join(self.fields),
            RULES_OPTION: format_rules(self.rules),
            KEY_RULE_OPTION: self.key_rule.value,
        }


def layout_of(spec: IndexSpec) -> BucketLayout:
    """The layout that is bound with a bucket index. Raises: OptionError: a text is not valid."""
    options = dict(spec.options)
    fields = tuple(name for name in options.get(FIELDS_OPTION, "").split(",") if name)
    rule = options.get(KEY_RULE_OPTION) or KeyRule.HUDI_1.value
    if rule not in {one.value for one in KeyRule}:
        raise OptionError(
            f"option {KEY_RULE_OPTION} cannot be {rule!r}", culprit=KEY_RULE_OPTION, hint="valid: 1.x | 0.15"
        )
    count = _checked_count(options.get(COUNT_OPTION, "256"), COUNT_OPTION)
    return BucketLayout(count, parse_rules(options.get(RULES_OPTION, "")), fields, KeyRule(rule))


def spec_of(layout: BucketLayout) -> IndexSpec:
    """The inverse of :func:`layout_of`."""
    return IndexSpec(IndexType.BUCKET, tuple(sorted(layout.options().items())))


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Rules from the option's text; none from an empty one.

    Raises:
        OptionError: a rule is not ``regex,count``, its count is no count, or its expression none that
            Java and Python read alike.
    """
    parts = [part.strip() for part in text.split(";")]
    while parts and not parts[-1]:
        parts.pop()
    rules: list[Rule] = []
    for part in parts:
        pieces = [piece.strip() for piece in part.split(",")]
        if len(pieces) != 2 or not pieces[0]:
            raise _bad_rule(
                part, "a rule is `regex,count`; write \\x2C for a comma and \\x3B for a semicolon in the expression"
            )
        _compiled(pieces[0])
        rules.append((pieces[0], _checked_count(pieces[1], part)))
    return tuple(rules)


def format_rules(rules: tuple[Rule, ...]) -> str:
    return ";".join(f"{expression},{count}" for expression, count in rules)


def exact_rule(partition_path: str) -> str:
    """An expression, read alike by Java and Python, that is found in this partition's path alone."""
    escaped = "".join(
        one if one.isalnum() or one in _PLAIN or ord(one) >= _ASCII_END else f"\\x{ord(one):02X}"
        for one in partition_path
    )
    return f"^{escaped}$"


def _checked_count(text: str, culprit: str) -> int:
    if not re.fullmatch(r"[0-9]{1,8}", text.strip()) or not 1 <= int(text) <= MAX_BUCKETS:
        raise OptionError(f"a bucket count cannot be {text!r}", culprit=culprit, hint=f"valid: 1 .. {MAX_BUCKETS}")
    return int(text)


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str) -> re.Pattern[str]:
    r"""Java's classes such as ``\d`` are ASCII; a nested or cut set is one in Java only."""
    if _JAVA_ONLY.search(expression):
        raise _bad_rule(expression, "it has a construct that Java and Python do not read alike; use a plainer one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(expression, re.ASCII)
    except (re.error, ValueError, FutureWarning, OverflowError, RecursionError) as error:
        raise _bad_rule(expression, f"no regular expression that Java and Python read alike: {error}") from None


def _bad_rule(rule: str, hint: str) -> OptionError:
    return OptionError(f"option {RULES_OPTION} cannot hold {rule!r}", culprit=RULES_OPTION, hint=hint)


class BucketOptions(Frozen):
    """How keys are placed; None: as bound, or as the stored keys show."""

    count: int | None = None
    fields: str | None = None
    rules: str | None = None
    key_rule: str | None = None


def _key_rule(text: str) -> str:
    return KeyRule(text.strip()).value


def _rules(text: str) -> str:
    """Rules as they are bound and compared, without blanks around their parts; whether they are any is seen later."""
    parts = text.strip().rstrip("; ").split(";")
    return some_text(";".join(",".join(piece.strip() for piece in part.split(",")) for part in parts))


def complete(bound: Bound, key_fields: Sequence[str]) -> Bound:
    """What is bound of a new bucket index: it names the fields that it hashes and the rule by which.

    Raises:
        OptionError: a hash field is no field of the record key, or a rule is none.
    """
    fields = [name for name in bound[FIELDS_OPTION].split(",") if name]
    odd = [name for name in fields if name not in key_fields]
    if odd:
        raise OptionError(
            f"option {FIELDS_OPTION} cannot be {','.join(fields)!r}: {odd[0]} is no field of the record key",
            culprit=FIELDS_OPTION,
            hint=f"the record key is {', '.join(key_fields)}",
        )
    return {
        **bound,
        FIELDS_OPTION: ",".join(fields or key_fields),
        RULES_OPTION: format_rules(parse_rules(bound[RULES_OPTION])),
        KEY_RULE_OPTION: bound[KEY_RULE_OPTION] or KeyRule.HUDI_1.value,
    }


# A table of options, not code: the formatter would give each argument a line.
# fmt: off
AREA: Final = OptionArea(
    "BUCKET",
    BucketOptions,
    (
        Option(COUNT_OPTION, "count", whole(1, MAX_BUCKETS), "1 .. 99999999",
               "BUCKET: number of buckets (file groups) in each partition. Bound. On a table of another writer it is "
               "detected from the stored keys. `lakeindex rescale` changes it.", True, "256"),
        Option(FIELDS_OPTION, "fields", listed, "key fields, comma-separated",
               "BUCKET: record key fields that are hashed. Default: all of them. "
               "On a table of another writer they are detected from the stored keys. Bound.", True),
        Option(RULES_OPTION, "rules", _rules, "`regex,count;regex,count;...`",
               "BUCKET: number of buckets for the partitions whose path matches an expression. "
               "The first expression that matches applies. Bound.", True),
        Option(KEY_RULE_OPTION, "key_rule", _key_rule, "1.x | 0.15",
               "BUCKET: Hudi release whose rule is used to hash keys that contain `:`. Default: "
               "the release that the stored keys show, otherwise 1.x. Bound.", True),
    ),
    complete,
)
# fmt: on
