"""What a base file's footer says about its keys, written and carried over from version to version.

Hudi's entries are the filter, its type code (only if dynamic) and the key range. Beside them stands a mark of ours,
``lakeindex.keys``: the filter's capacity and how many keys were ever put into it, so that a rewritten file can take
the old filter plus the new keys; and a checksum over filter and range, because nothing in a Parquet file protects its
footer and a filter that lost a bit would hide a key. Hudi does not keep the mark, so a filter it wrote is never taken
for ours.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Final

from lakeindex.bloom.filter import BloomFilter, FilterProblem, build_sized, extend_filter, parse_filter, size_for
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray
from lakeindex.hashing.java_strings import java_min_max, java_order_key
from lakeindex.options.types import FilterSizing, FilterType, WriteConfig

FILTER: Final = "org.apache.hudi.bloomfilter"
OLD_FILTER: Final = "com.uber.hoodie.bloomfilter"
FILTER_TYPE: Final = "hoodie_bloom_filter_type_code"
MIN_KEY: Final = "hoodie_min_record_key"
MAX_KEY: Final = "hoodie_max_record_key"
MARK: Final = "lakeindex.keys"
_MARK_START: Final = '{"capacity":'


class KeysMark(Frozen):
    """Our mark in a footer.

    Attributes:
        capacity: keys the filter was made for.
        keys: keys put into it so far, deleted ones included.
        fpp: false-positive probability it was made for.
        crc32: checksum of filter text, least and greatest key.
    """

    capacity: int
    keys: int
    fpp: float
    crc32: int

    def to_text(self) -> str:
        """JSON, as it stands in the footer."""
        fields = {"capacity": self.capacity, "keys": self.keys, "fpp": self.fpp, "crc32": self.crc32}
        return json.dumps(fields, separators=(",", ":"))


def parse_mark(text: str | bytes | None) -> KeysMark | None:
    """The mark in a footer's value; None if there is none or it is not ours."""
    if text is None:
        return None
    try:
        found = json.loads(text)
        return KeysMark(int(found["capacity"]), int(found["keys"]), float(found["fpp"]), int(found["crc32"]))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def looks_like_mark(text: str) -> bool:
    """Whether a footer's value is a mark, or was one: found under another name, the name was damaged."""
    return text.startswith(_MARK_START)


def keys_checksum(filter_text: bytes, min_key: str, max_key: str) -> int:
    """CRC-32 of what the footer says about the keys."""
    ends = b"".join(b"\x00" + end.encode() for end in (min_key, max_key))
    return zlib.crc32(ends, zlib.crc32(filter_text))


def footer_of_keys(keys: StringArray, config: WriteConfig) -> dict[str, str]:
    """Footer entries of a new base file that holds exactly these keys; one without keys has no range, as Hudi's.

    Raises:
        InvariantError: a key is null or empty.
    """
    ends = java_min_max(keys)
    size = size_for(len(keys), config)
    built = build_sized(keys, size)
    if ends is None:
        return _filter_entries(built, built.to_text())
    return _entries(built, ends, size.entries, len(keys), size.fpp)


def footer_with_added(old: Mapping[str, str], added: StringArray, config: WriteConfig) -> dict[str, str] | None:
    """Footer entries of a rewritten base file: the old filter plus the added keys.

    Deleted keys stay in the filter and may leave the range wider than the keys are; both only cost a look.

    Args:
        old: key/value metadata of the file that is replaced.
        added: keys that the old file did not hold.

    Returns:
        None if the filter must be built anew from all keys: it is not ours, is full, damaged, or of other options.

    Raises:
        InvariantError: an added key is null or empty.
    """
    mark = parse_mark(old.get(MARK))
    if mark is None or not _fits(mark, old, len(added), config):
        return None
    text = old[FILTER].encode("ascii", "replace")
    if keys_checksum(text, old[MIN_KEY], old[MAX_KEY]) != mark.crc32:
        return None
    if not len(added):
        return {name: old[name] for name in (FILTER, FILTER_TYPE, MIN_KEY, MAX_KEY, MARK) if name in old}
    parsed = parse_filter(text, old.get(FILTER_TYPE))
    if isinstance(parsed, FilterProblem) or parsed.rows != 1:
        return None
    ends = (old[MIN_KEY], old[MAX_KEY])
    more = java_min_max(added)
    if more is not None:
        ends = min(ends[0], more[0], key=java_order_key), max(ends[1], more[1], key=java_order_key)
    grown = extend_filter(parsed, added)
    return _entries(grown, ends, mark.capacity, mark.keys + len(added), mark.fpp)


def _fits(mark: KeysMark, old: Mapping[str, str], added: int, config: WriteConfig) -> bool:
    """Whether the old filter has room and is what these options ask for."""
    if any(key not in old for key in (FILTER, MIN_KEY, MAX_KEY)):
        return False
    if mark.keys + added > mark.capacity:
        return False
    asked = size_for(mark.keys + added, config)
    old_type = FilterType.SIMPLE if old.get(FILTER_TYPE) is None else FilterType.DYNAMIC_V0
    if old_type is not asked.filter_type or mark.fpp != asked.fpp:
        return False
    return config.filter_sizing is FilterSizing.EXACT or mark.capacity == asked.entries


def _entries(bloom_filter: BloomFilter, ends: tuple[str, str], capacity: int, keys: int, fpp: float) -> dict[str, str]:
    text = bloom_filter.to_text()
    entries = _filter_entries(bloom_filter, text)
    entries[MIN_KEY], entries[MAX_KEY] = ends
    entries[MARK] = KeysMark(capacity, keys, fpp, keys_checksum(text, *ends)).to_text()
    return entries


def _filter_entries(bloom_filter: BloomFilter, text: bytes) -> dict[str, str]:
    entries = {FILTER: text.decode("ascii")}
    if bloom_filter.filter_type is not FilterType.SIMPLE:
        entries[FILTER_TYPE] = bloom_filter.filter_type.value
    return entries
