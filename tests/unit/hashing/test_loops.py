"""Loops have two forms, which give the same answers; little work takes the one that is there at once."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types
from numba.core import caching
from numba.core.errors import TypingError

from lakeindex.bloom import filter as plain_loops
from lakeindex.bloom import kernels
from lakeindex.hashing import murmur_kernels, plain_murmur
from lakeindex.hashing.arrow import StringBuffers, string_buffers
from lakeindex.hashing.compile_cache import compiled
from lakeindex.hashing.loops import Loop
from tests.strategies import any_texts

texts = st.lists(any_texts, max_size=30) | st.lists(st.binary(max_size=40).map(lambda b: b.hex()), max_size=30)
sizes = st.integers(1, 2**31 - 1) | st.integers(1, 200)


def buffers_of(keys: list[str]) -> StringBuffers:
    """Not from the beginning of their buffers, as a part of a chunk."""
    found = string_buffers(pa.array(["before", *keys, "behind"], pa.string()))
    return found.slice(1, len(keys) + 1)


@given(texts, st.integers(0, 2**32 - 1))
def test_both_forms_hash_alike(keys: list[str], seed: int) -> None:
    part = buffers_of(keys)
    outs = [np.zeros(len(keys), np.uint32) for _ in range(2)]
    plain_murmur.hash_all(part.data, part.offsets, np.uint32(seed), outs[0])
    murmur_kernels.hash_all(part.data, part.offsets, np.uint32(seed), outs[1])
    assert outs[0].tolist() == outs[1].tolist()


@given(texts, texts, st.integers(1, 400), st.integers(1, 40), st.integers(1, 3))
def test_both_forms_set_and_find_the_same_bits(keys: list[str], asked: list[str], m: int, k: int, rows: int) -> None:
    part, probes = buffers_of(keys), buffers_of([*asked, *keys[:3]])
    targets = np.arange(len(keys), dtype=np.int64) % rows
    filters = [np.zeros((rows, (m + 7) // 8), np.uint8) for _ in range(2)]
    for form, bits in zip((plain_loops, kernels), filters, strict=True):
        form.add_keys(part.data, part.offsets, np.uint32(m), k, targets, bits)
    assert (filters[0] == filters[1]).all()
    outs = [np.zeros(len(probes), np.bool_) for _ in range(2)]
    for form, out in zip((plain_loops, kernels), outs, strict=True):
        form.probe_keys(probes.data, probes.offsets, np.uint32(m), k, filters[0], out)
    assert outs[0].tolist() == outs[1].tolist()


@given(texts, sizes)
def test_positions_are_those_of_the_chained_hashes(keys: list[str], m: int) -> None:
    part = buffers_of(keys)
    for alike in plain_murmur.alike(part.data, part.offsets):
        places = [step.tolist() for step in plain_loops._places(alike, np.uint32(m), 3)]
        for number, row in enumerate(alike.rows.tolist()):
            one, h = buffers_of([keys[row]]), np.zeros(1, np.uint32)
            for step in places:
                murmur_kernels.hash_all(one.data, one.offsets, h[0], h)
                assert step[number] == abs(int(h.view(np.int32)[0])) % m


@pytest.mark.parametrize(("numba", "patience"), [(None, 10), (ModuleType("numba"), 310)])
def test_a_loop_is_plain_until_it_pays_to_load_the_other(
    monkeypatch: pytest.MonkeyPatch, numba: ModuleType | None, patience: int
) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    if numba is not None:
        monkeypatch.setitem(sys.modules, "numba", numba)
    done: list[str] = []
    loaded: list[str] = []

    def load() -> object:
        loaded.append("compiled")
        return lambda what: done.append(f"compiled {what}")

    loop: Loop[str] = Loop(lambda what: done.append(f"plain {what}"), load, patience=patience)  # type: ignore[arg-type]
    for cost, what in ((6, "a"), (4, "b"), (1, "c"), (0, "d")):
        loop.run(cost, what)
    assert done == ["plain a", "plain b", "compiled c", "compiled d"]
    assert loaded == ["compiled"]


def test_a_loop_that_was_loaded_before_is_compiled_at_once() -> None:
    done: list[str] = []
    loop: Loop[()] = Loop(lambda: done.append("plain"), lambda: lambda: done.append("compiled"), patience=10)
    loop.preload()
    loop.run(1)
    assert done == ["compiled"]


def test_where_no_cache_can_be_written_loops_are_compiled_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose files and home cannot be written."""
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", [])
    signature = (types.int64, types.Array(types.int64, 1, "C"))
    out = np.zeros(1, np.int64)
    compiled(_twice, *signature)(21, out)
    assert out.tolist() == [42]
    monkeypatch.undo()
    with pytest.raises(TypingError):  # what else is wrong is not taken for that
        compiled(_twice, types.unicode_type, types.Array(types.int64, 1, "C"))


def _twice(value: int, out: np.ndarray) -> None:
    out[0] = 2 * value
