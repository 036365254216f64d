"""Hudi's bloom filters: sizing, building, probing, and the text in a Parquet footer."""

from lakeindex.bloom.filter import (
    BloomFilter,
    FilterProblem,
    FilterSize,
    build_filter,
    expected_fpp,
    extend_filter,
    filter_candidates,
    parse_filter,
    size_for,
    usable_filter,
)

__all__ = [
    "BloomFilter",
    "FilterProblem",
    "FilterSize",
    "build_filter",
    "expected_fpp",
    "extend_filter",
    "filter_candidates",
    "parse_filter",
    "size_for",
    "usable_filter",
]
