from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.operations.check_base_files import hashes_of, repeated_hashes, save_hashes
from tests.strategies import key_texts, plain_key_texts

files_of_keys = st.lists(st.lists(st.one_of(plain_key_texts, key_texts), max_size=12), max_size=5)


@given(files_of_keys, st.integers(1, 20))
def test_finds_exactly_the_keys_that_occur_twice(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], rows_at_once: int
):
    folder: Path = tmp_path_factory.mktemp("hashes")
    paths = []
    for number, keys in enumerate(files):
        paths.append(folder / f"{number}.npy")
        # in two parts, as row groups come
        half = len(keys) // 2
        save_hashes(paths[-1], [hashes_of(pa.array(part, pa.string())) for part in (keys[:half], keys[half:])])
    counts = Counter(key for keys in files for key in keys)
    expected = {key for key, count in counts.items() if count > 1}
    found = list(repeated_hashes(paths, rows_at_once))
    hashes = {int(one) for repeated, _ in found for one in repeated}
    assert hashes == {int(one) for one in hashes_of(pa.array(sorted(expected), pa.string()))}
    holders = {at for _, files_of in found for at in files_of}
    assert holders == {at for at, keys in enumerate(files) if expected & set(keys)}
