"""Options of BUCKET."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.index.bucket.bucket_layout import (
    COUNT_OPTION,
    FIELDS_OPTION,
    KEY_RULE_OPTION,
    MAX_BUCKETS,
    RULES_OPTION,
    KeyRule,
    format_rules,
    parse_rules,
)
from lakeindex.options.option import Bound, Option, OptionArea
from lakeindex.options.values import listed, some_text, whole


@dataclass(frozen=True, slots=True)
class BucketOptions:
    """How keys are placed; None: as bound, or as the stored keys show."""

    count: int | None = None
    fields: str | None = None
    rules: str | None = None
    key_rule: str | None = None


def _key_rule(text: str) -> str:
    """Whose rule makes the key of a bucket."""
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
