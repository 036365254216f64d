"""Each loop gives the answers of its plain form: for every length, all bytes, slices and exact buffers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.bloom import filter as bloom
from lakeindex.bloom.filter import FilterSize
from lakeindex.hashing import compile_loops, java_strings, loops, murmur, row_digest
from lakeindex.hashing.arrow import StringBuffers, string_buffers
from lakeindex.index import key_ranges
from lakeindex.metadata import record_index
from lakeindex.operations import row_order
from lakeindex.options.types import FilterType
from lakeindex.write.keys.java_text import java_text
from lakeindex.write.types import widening
from tests.strategies import any_texts

ROOT = Path(__file__).resolve().parents[3]
LONGEST = 300
ALIKE = 9
"""One more than go together."""
texts = st.lists(any_texts, max_size=30) | st.lists(st.binary(max_size=40).map(lambda b: b.hex()), max_size=30)
sizes = st.integers(1, 2**31 - 1) | st.integers(1, 200)
Loop = Callable[..., None]
NAMES = string_buffers(pa.array(["id", "k2", "é", ""]))


def test_the_library_is_there() -> None:
    """Without it all below would compare the plain forms with themselves: make setup makes it."""
    assert loops.loaded().problem == "", "make setup compiles it"


def buffers_of(keys: list[str]) -> StringBuffers:
    """Not from the beginning of their buffers, as a part of a chunk."""
    found = string_buffers(pa.array(["before", *keys, "behind"], pa.string()))
    return found.slice(1, len(keys) + 1)


def random_strings(rng: np.random.Generator, lengths: list[int]) -> StringBuffers:
    """Byte strings that end where their buffer does."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    pieces = [b",", b":", b"id", b"k2", "é中\U0001f600".encode(), b"__null__", b"__empty__"]
    data = bytearray(rng.integers(0, 256, int(offsets[-1]), dtype=np.uint8).tobytes())
    for at in rng.integers(0, max(len(data), 1), len(data) // 8).tolist():
        piece = pieces[at % len(pieces)][: len(data) - at]
        data[at : at + len(piece)] = piece
    return StringBuffers(np.array(data, np.uint8) if data else np.zeros(0, np.uint8), offsets)


def differs(loop: Loop, out: np.ndarray, *args: object) -> bool:
    """Whether the forms differ in what they leave in the last argument."""
    plain = out.copy()
    loop(*args, out)
    loop.__wrapped__(*args, plain)  # type: ignore[attr-defined]
    return out.tobytes() != plain.tobytes()


def loops_over(strings: StringBuffers, seed: int, m: int, k: int, rows: int) -> Iterator[tuple[str, bool]]:
    """The loops over byte strings, and whether the forms differ."""
    count, data = len(strings), (strings.data, strings.offsets)
    yield "hash_all", differs(murmur.hash_all, np.zeros(count, np.uint32), *data, seed)
    yield "fold_bytes", differs(row_digest.fold_bytes, np.zeros(count, np.uint64), *data)
    targets = np.arange(count, dtype=np.int64) % rows
    bits = np.zeros((rows, (m + 7) // 8), np.uint8)
    yield "add_keys", differs(bloom.add_keys, bits, *data, m, k, targets)
    bits |= np.random.default_rng(seed).integers(0, 256, bits.shape, dtype=np.uint8)
    bits[:, -1] = 255
    yield "probe_keys", differs(bloom.probe_keys, np.zeros(count, np.bool_), *data, m, k, bits)
    if count > ALIKE:  # plain Python is slow
        strings = strings.slice(count - 3, count)  # the last ones: their buffer ends with them
        count, data = len(strings), (strings.data, strings.offsets)
    yield "hash_strings", differs(java_strings.hash_strings, np.zeros(count, np.uint32), *data)
    for loop in (java_strings.hash_new, java_strings.hash_old):
        yield loop.__name__, differs(loop, np.zeros(count, np.uint32), *data, NAMES.data, NAMES.offsets)
    ordered = sorted(strings.value(row) for row in range(count))
    lengths = np.array([0, *map(len, ordered)], np.int64)
    whole = (np.frombuffer(b"".join(ordered), np.uint8), np.cumsum(lengths))
    for right in (0, 1):
        yield f"search {right}", differs(key_ranges.search_strings, np.zeros(count, np.int64), *whole, *data, right)
    starts = np.ascontiguousarray(strings.offsets[:-1][::-1])
    copied = np.concatenate([[0], np.cumsum(np.diff(strings.offsets)[::-1])]).astype(np.int64)
    out = np.zeros(int(copied[-1]), np.uint8)
    yield "copy_values", differs(record_index.copy_values, out, strings.data, starts, copied)


def test_every_length_and_byte() -> None:
    """Keys of one length side by side, more than go together, and one of another length between."""
    rng, wrong = np.random.default_rng(1), set()
    for length in range(LONGEST + 1):
        lengths = [length] * ALIKE + [int(rng.integers(0, LONGEST))] + [length] * (length % 3)
        strings = random_strings(rng, lengths)
        rows, m, k = 1 + length % 3, int(rng.integers(1, 4_000)), 1 + length % 70
        wrong |= {(name, length) for name, wrongly in loops_over(strings, length, m, k, rows) if wrongly}
    every = StringBuffers(np.arange(256, dtype=np.uint8), np.arange(257, dtype=np.int64))
    wrong |= {(name, "each byte") for name, wrongly in loops_over(every, 0, 2**20 + 1, 7, 1) if wrongly}
    assert wrong == set()


@given(texts, st.integers(0, 2**32 - 1), st.integers(1, 400), st.integers(1, 100), st.integers(1, 3))
def test_both_forms_of_slices_and_no_keys_at_all(keys: list[str], seed: int, m: int, k: int, rows: int) -> None:
    assert [name for name, wrongly in loops_over(buffers_of(keys), seed, m, k, rows) if wrongly] == []


@given(st.lists(st.integers(0, 2**64 - 1), max_size=40), st.data())
def test_both_forms_fold_runs_of_hashes(values: list[int], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=6)))
    offsets = np.array([0, *cuts, len(values)], np.int64)
    out = np.zeros(len(offsets) - 1, np.uint64)
    assert not differs(row_digest.fold_hashes, out, np.array(values, np.uint64), offsets)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9), st.data())
def test_both_forms_mix_alike(values: list[int], data: st.DataObject) -> None:
    entries, number = np.array(values, np.uint64), data.draw(st.integers(0, 2**31))
    places = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)), np.int32)
    hashes = np.array(data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=len(places), max_size=len(places))), "u8")
    assert not differs(row_digest.mix_entries, hashes.copy(), entries, places, number)
    assert not differs(row_digest.mix_in, hashes.copy(), entries[places], number)
    assert not differs(row_digest.mix_all, hashes, number)


@pytest.mark.parametrize(
    ("loop", "kind", "few"),
    [
        (row_order.count_edges_f8, np.float64, st.sampled_from([-1.5, -0.0, 0.0, 2.0, np.inf, -np.inf, np.nan])),
        (row_order.count_edges_i8, np.int64, st.sampled_from([-(2**63), -1, 0, 7, 2**63 - 1])),
        (row_order.count_edges_u8, np.uint64, st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    ],
)
@given(st.data())
def test_both_forms_count_edges_alike(
    loop: Loop, kind: type, few: st.SearchStrategy[float], data: st.DataObject
) -> None:
    edges = np.unique(np.array(data.draw(st.lists(few, max_size=9)), kind))
    values = np.array(data.draw(st.lists(few, max_size=20)), kind)
    assert not differs(loop, np.zeros(len(values), np.uint64), edges, values)


@given(texts, sizes)
def test_positions_are_those_of_the_chained_hashes(keys: list[str], m: int) -> None:
    part = buffers_of(keys)
    for alike in murmur.alike(part.data, part.offsets):
        places = [step.tolist() for step in bloom._places(alike, m, 3)]
        for number, row in enumerate(alike.rows.tolist()):
            one, h = buffers_of([keys[row]]), np.zeros(1, np.uint32)
            for step in places:
                murmur.hash_all(one.data, one.offsets, int(h[0]), h)
                assert step[number] == abs(int(h.view(np.int32)[0])) % m


@given(st.lists(st.integers(0, 2**32 - 1), max_size=60))
def test_doubles_are_those_of_the_texts_or_none(patterns: list[int]) -> None:
    values = np.array(patterns, np.uint32).view(np.float32)
    out = np.zeros(len(values))
    widening.doubles_of_texts(values, out)
    known = ~np.isnan(out)
    assert out[known].tolist() == [float(text) for text in java_text(pa.array(values[known]), "v").to_pylist()]


def test_halves_where_a_number_of_64_bits_overflows_are_rounded_as_java_does() -> None:
    """Measured with Java 17."""
    values = np.array([8.0891445e25, -8.7939005e25, 9.6979625e25, 8.0460695e25, -0.0, 0.0], np.float32)
    out = np.zeros(len(values))
    widening.doubles_of_texts(values, out)
    assert list(map(str, out.tolist())) == [
        "8.0891445e+25",
        "-8.7939005e+25",
        "9.6979625e+25",
        "8.0460695e+25",
        "-0.0",
        "0.0",
    ]


def entries_by_hand(data: bytes, blocks: list[list[int]], has_mvcc: bool, keys: list[bytes]) -> list[list[int]] | None:
    """What :func:`find_values` finds, spelled out; None if a block is not plain."""
    found, at = [[-1, -1] for _ in keys], 0
    for end, first, last in blocks:
        before = b""
        while at < end:
            head = data[at : min(at + 10, end)]
            sizes = int.from_bytes(head[:4], "big", signed=True), int.from_bytes(head[4:8], "big", signed=True)
            key_to = at + 10 + int.from_bytes(head[8:], "big", signed=True)
            value, stop = at + 8 + sizes[0], at + 8 + sum(sizes)
            mvcc = data[stop : stop + 1] if has_mvcc and stop < end else b"\0" * (not has_mvcc)
            key = data[at + 10 : key_to]
            if (
                len(head) < 10
                or key_to < at + 10
                or not key_to <= value <= stop <= end
                or key < before
                or mvcc != b"\0"
            ):
                return None
            for number in range(first, last):
                if keys[number] == key:
                    found[number] = [value, stop]
            before, at = key, stop + has_mvcc
    return found


@given(
    st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=9)), max_size=8),
    st.lists(st.binary(max_size=3), max_size=8, unique=True),
    st.booleans(),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=2),
    st.integers(0, 9),
)
def test_values_of_a_block(
    entries: list[tuple[bytes, bytes]], keys: list[bytes], has_mvcc: bool, damage: list[tuple[float, int]], cut: int
) -> None:
    content = bytearray()
    for key, value in sorted(entries, key=lambda entry: entry[0]):
        content += (len(key) + 4).to_bytes(4, "big") + len(value).to_bytes(4, "big") + len(key).to_bytes(2, "big")
        content += key + b"\0\0" + value + b"\0" * has_mvcc
    for place, byte in damage:
        if content:
            content[int(place * len(content))] = byte
    data, keys = bytes(content[: max(len(content) - cut, 0)]) if cut > 7 else bytes(content), sorted(keys)
    found = np.full((len(keys) + 1, 2), -1, np.int64)
    offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    args = np.array([[len(data), 0, len(keys)]], np.int64), has_mvcc, np.frombuffer(b"".join(keys), np.uint8), offsets
    record_index.find_values(np.frombuffer(data, np.uint8).copy(), *args, found)
    expected = entries_by_hand(data, [[len(data), 0, len(keys)]], has_mvcc, keys)
    assert (found[-1, 0] == record_index._FINE) == (expected is not None)
    if expected is not None:
        assert found[:-1].tolist() == expected


def test_blocks_that_are_said_to_be_longer_than_their_bytes_are_not_read() -> None:
    for place in ([11, 0, 1], [10, 0, 2], [10, -1, 1]):
        found = np.full((2, 2), -1, np.int64)
        keys, offsets = np.zeros(1, np.uint8), np.array([0, 1], np.int64)
        record_index.find_values(np.zeros(10, np.uint8), np.array([place], np.int64), False, keys, offsets, found)
        assert found[1, 0] != record_index._FINE


def test_arrays_of_another_kind_are_refused() -> None:
    data, offsets, out = np.zeros(4, np.uint8), np.array([0, 4], np.int64), np.zeros(1, np.uint32)
    for wrong in (
        (data, offsets.astype(np.int32), 0, out),
        (data, offsets, 0, np.zeros(1, np.int64)),
        (data, np.array([0, 9, 4, 9], np.int64)[::2], 0, out),
        (data, offsets.reshape(1, 2), 0, out),
    ):
        with pytest.raises(TypeError, match="is no array of"):
            murmur.hash_all(*wrong)
    with pytest.raises(ValueError, match="zip"):
        murmur.hash_all(data, offsets, 0)  # type: ignore[call-arg]


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(loops, "loaded", lambda: loops.Loaded(Path("loops"), None, "there is none"))
    loops._function.cache_clear()
    yield
    loops._function.cache_clear()


KEYS = ["a", "", "kéy", "id:1,k2:__null__", "中文键\U0001f600", *(f"key-{n:08d}" for n in range(40))]


def public_answers() -> list[object]:
    """What those give that users call, of chunks, slices and other types of the same keys; and of nulls."""
    keys = pa.array(["x", *KEYS]).slice(1)
    found: list[object] = []
    for kind in (keys, keys.cast(pa.large_string()), keys.dictionary_encode(), pa.chunked_array([keys[:7], keys[7:]])):
        found += [murmur.murmur(kind, 7).tolist(), java_strings.string_hashes(kind).tolist()]
        found += [java_strings.bucket_hashes(kind, ["id", "k2"], old_rule=rule).tolist() for rule in (False, True)]
    some = pa.array([key for key in KEYS if key])
    for kind in FilterType:
        built = bloom.build_sized(some, FilterSize(kind, 9, 30, 1e-3))
        found += [built.to_text(), built.probe(keys).tolist(), bloom.expected_fpp(built)]
    lists = pa.array([[1], None, [], [2, 3, None]] * 3)
    floats = pa.array([0.1, None, 3.4e10, float("nan")] * 3, pa.float32())
    table = pa.table({"k": pa.array([*KEYS[:11], None]), "l": lists, "f": floats, "b": pa.array([b"\xff", None] * 6)})
    found += [row_digest.digest_rows(table), row_digest.digest_rows(table.slice(3, 5))]
    found.append(str(widening.widened(pa.chunked_array([floats, floats.slice(1, 2)]), pa.float64()).to_pylist()))
    ordered = string_buffers(pa.array(sorted(KEYS, key=str.encode)))
    ends = [key.encode() for key in KEYS]
    found += [key_ranges.search_sorted(ordered, ends, right=right).tolist() for right in (False, True)]
    return found


def test_all_work_the_same_without_the_library(request: pytest.FixtureRequest) -> None:
    compiled = public_answers()
    request.getfixturevalue("without_library")
    assert loops._function("hash_all", ()) is None
    assert public_answers() == compiled


@pytest.mark.slow
def test_no_loop_reads_or_writes_beside_its_buffers(tmp_path: Path) -> None:
    """These tests once more, with a library that watches its reads, and undefined behaviour as a crash."""
    asan = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not Path(asan).is_absolute():
        pytest.skip("cc has no sanitizers")
    watched = tmp_path / "watched.so"
    flags = ("-fsanitize=address,undefined", "-fsanitize-undefined-trap-on-error", "-g", "-O1")
    compile_loops.make(watched, *flags)
    code = (
        "import sys, pathlib, pytest; from lakeindex.hashing import compile_loops; "
        "watched = pathlib.Path(sys.argv.pop(1)); compile_loops.library = lambda: watched; sys.exit(pytest.main(sys.argv[1:]))"
    )
    tests = [
        __file__,
        str(ROOT / "tests/unit/parquet/test_walk_forms.py"),
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    env = {"LD_PRELOAD": asan, "ASAN_OPTIONS": "detect_leaks=0", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    env |= {"PYTHONPATH": f"{ROOT / 'lib'}:{ROOT}", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-c", code, str(watched), *tests]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
