"""Stage 3: probe each file's filter with only the keys inside its range. BLOOM kinds alone need it.

Filters come from the footer cache, those that lie beside each other there with one request: tasks are cut along the
side files. If the range of a file came from the metadata table, its filter does, too. A filter that is damaged or gone
there is read from its footer, and put into the cache anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lakeindex.bloom import BloomFilter, expected_fpp, filter_candidates, usable_filter
from lakeindex.files.footer_cache import CacheEntry, FooterCache
from lakeindex.files.footers import Footer, read_footer
from lakeindex.files.metadata_facts import stored_filters
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import string_buffers
from lakeindex.model import BaseFile
from lakeindex.pipeline import CANDIDATES, RANGES, Stage
from lakeindex.run.checkpoints import Manifest, Part, arrow_schema, columns_of, digest_of_text
from lakeindex.run.chunks import Chunk, chunk_keys, chunks_of, pack_rows
from lakeindex.run.lookup_files import IN_FOOTER, IN_METADATA, RANGE_IN_METADATA, LookupFile, read_files
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner, for_work, run_tasks
from lakeindex.tasks.stores import storage_at

_NOT_CACHED = (IN_FOOTER, IN_METADATA, RANGE_IN_METADATA)
_TOLD = (IN_METADATA, RANGE_IN_METADATA)
_FILTER_COST = 20_000.0
"""Loading a filter costs about as much as probing this many keys."""
_FILTER_BYTES = 5
"""Of a filter's text, a key."""
_LEAST = 1e-6
"""Chance that a filter holds a key back: of one that has no clear bit it holds none."""


class Slice(Frozen):
    """Keys ``[from_row, to_row)`` of a chunk."""

    chunk: int
    from_row: int
    to_row: int


class Probe(Frozen):
    """One file's filter and the slices to probe it with."""

    file: LookupFile
    slices: tuple[Slice, ...]

    @property
    def pairs(self) -> int:
        return sum(s.to_row - s.from_row for s in self.slices)


class ProbeTask(Frozen):
    """Some files' probes; ``chunks`` are those that the slices name, by number."""

    spec: RunSpec
    probes: tuple[Probe, ...]
    chunks: dict[int, Chunk]
    path: str


class ProbeResult(Frozen):
    """Candidates of some files, and how many false ones to expect by the filters' own fill."""

    part: Part
    pairs_in: int
    pairs_out: int
    expected_false: float
    without_filter: int
    saturated: int
    footers_read: int
    filters_told: int
    mended: tuple[CacheEntry, ...]


def bloom_check(spec: RunSpec, staged: Manifest, lookup: Manifest, runner: Runner) -> Manifest:
    """Run the stage, or take over its checkpoint."""
    folder = run_folder(spec)
    basis = basis_of_candidates(lookup)
    done = folder.read_manifest(Stage.BLOOM_CHECK)
    if done is not None and done.basis == basis and folder.is_whole(done):
        return done
    chunks = chunks_of(folder, staged)
    files = read_files(folder, lookup.parts("files")[0])
    probes = _probes(files, folder.read_all(lookup, "ranges", arrow_schema(RANGES)))
    filters = sum({p.file.number: _FILTER_BYTES * p.file.rows for p in probes}.values())
    near = for_work(runner, filters + sum(part.bytes for part in staged.parts("staged")), spec.config)
    share = sum(p.pairs for p in probes) / (near.slots * 2)
    probes = [piece for probe in probes for piece in _split_hot(probe, share)]
    cache = FooterCache(storage_at(spec.table_uri))
    probes.sort(key=lambda p: (*_place(cache, p.file), p.file.number, p.slices[0].chunk))
    packs = _cut([p.pairs + _FILTER_COST for p in probes], near.slots * 3)
    attempt = folder.new_attempt(Stage.BLOOM_CHECK)
    tasks = []
    for n, numbers in enumerate(packs):
        mine = tuple(probes[numbers.start : numbers.stop])
        used = {s.chunk: chunks[s.chunk] for p in mine for s in p.slices}
        tasks.append(ProbeTask(spec, mine, used, f"{attempt}/candidates/{n:05d}.parquet"))
    results = run_tasks(near, probe_filters, tasks, "bloom check: probe filters")
    mended = {entry.path: entry for r in results for entry in r.mended}
    found_in = {p.file.filter_from for p in probes if p.file.file.path in mended}
    cache.keep_facts(mended.values(), found_in - set(_NOT_CACHED))
    return Manifest(
        stage=Stage.BLOOM_CHECK,
        run_id=spec.run_id,
        basis=basis,
        tables={"candidates": tuple(r.part for r in results)},
        counters={
            "rows_in": sum(c.rows for c in chunks),
            "rows_out": sum(c.rows for c in chunks),
            "files": len({p.file.number for p in probes}),
            "files_without_filter": sum(r.without_filter for r in results),
            "filters_saturated": sum(r.saturated for r in results),
            "footers_read": sum(r.footers_read for r in results),
            "files_pruned_by_metadata": _files_of_metadata_table(files)
            - _files_of_metadata_table({p.file.number: p.file for p in probes}.values()),
            "filters_from_metadata": sum(r.filters_told for r in results),
            "pairs_in": sum(r.pairs_in for r in results),
            "pairs_out": sum(r.pairs_out for r in results),
            "expected_false_positives": round(sum(r.expected_false for r in results), 3),
        },
    )


def basis_of_candidates(lookup: Manifest) -> str:
    """Digest of what the stage works from."""
    return digest_of_text(lookup.digest)


def _files_of_metadata_table(files: Iterable[LookupFile]) -> int:
    """Of how many files the metadata table has told the range."""
    return sum(file.filter_from in _TOLD for file in files)


def _probes(files: Sequence[LookupFile], ranges: pa.Table) -> list[Probe]:
    slices: dict[int, list[Slice]] = {}
    columns = [ranges.column(n).to_pylist() for n in ("file", "chunk", "from_row", "to_row")]
    for file, chunk, first, last in zip(*columns, strict=True):
        slices.setdefault(file, []).append(Slice(chunk, first, last))
    return [Probe(files[n], tuple(sorted(slices[n], key=lambda s: s.chunk))) for n in sorted(slices)]


def _split_hot(probe: Probe, share: float) -> list[Probe]:
    """Cut a file that more than a task's share of the batch falls into by chunk,
    so that one task does not carry it alone.
    """
    if probe.pairs <= max(share, 4 * _FILTER_COST) or len(probe.slices) == 1:
        return [probe]
    pieces: list[list[Slice]] = [[]]
    load = 0
    for piece in probe.slices:
        if load > share:
            pieces.append([])
            load = 0
        pieces[-1].append(piece)
        load += piece.to_row - piece.from_row
    return [Probe(probe.file, tuple(p)) for p in pieces]


def _place(cache: FooterCache, file: LookupFile) -> tuple[str, int]:
    return ("", 0) if file.filter_from in _NOT_CACHED else cache.place_of(file.filter_from, file.file)


def _cut(costs: Sequence[float], bins: int) -> list[range]:
    """Cut a row of items into at most ``bins`` neighbouring stretches of about equal cost."""
    share = sum(costs) / max(bins, 1)
    stretches: list[range] = []
    start, load = 0, 0.0
    for at, cost in enumerate(costs):
        if at > start and load + cost / 2 > share and len(stretches) < bins - 1:
            stretches.append(range(start, at))
            start, load = at, 0.0
        load += cost
    return [*stretches, range(start, len(costs))] if costs else []


def probe_filters(task: ProbeTask) -> ProbeResult:
    folder = run_folder(task.spec)
    filters = _Filters(task)
    rows: list[tuple[int, int, int, bytes]] = []
    pairs_in = without = saturated = 0
    expected = 0.0
    for probe, bloom in filters.probes():
        without += bloom is None
        kept = 0
        for piece in probe.slices:
            keys = string_buffers(chunk_keys(folder, task.chunks[piece.chunk]))
            hits = filter_candidates(bloom, keys, piece.from_row, piece.to_row)
            kept += len(hits)
            if len(hits):
                rows.append((probe.file.number, piece.chunk, len(hits), pack_rows(hits)))
        pairs_in += probe.pairs
        if bloom is not None:
            chance = expected_fpp(bloom)
            saturated += chance > 0.01
            expected += (probe.pairs - kept) * chance / max(1 - chance, _LEAST)  # for those that it holds back
    schema = arrow_schema(CANDIDATES)
    columns = columns_of(rows, len(schema))
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    return ProbeResult(
        folder.write_table(task.path, table),
        pairs_in,
        sum(r[2] for r in rows),
        expected,
        without,
        saturated,
        filters.footers_read,
        filters.filters_told,
        filters.mend(),
    )


class _Filters:
    """The filters of a task's files, one at a time, from the cache or, where it has none to trust, from the footer."""

    def __init__(self, task: ProbeTask) -> None:
        self._store = storage_at(task.spec.table_uri)
        self._cache = FooterCache(self._store)
        self._may_mend = task.spec.config.footer_cache
        self._use_metadata = task.spec.config.use_metadata
        self._probes: dict[str, list[Probe]] = {}
        for probe in task.probes:
            self._probes.setdefault(probe.file.file.path, []).append(probe)
        self._read: list[tuple[BaseFile, Footer]] = []
        self.footers_read = 0
        self.filters_told = 0

    def probes(self) -> Iterator[tuple[Probe, BloomFilter | None]]:
        """Each probe with its file's filter; None if the file has none that can be trusted."""
        files = [probes[0].file for probes in self._probes.values()]
        cached = [(f.filter_from, f.file) for f in files if f.filter_from not in _NOT_CACHED]
        for file, footer in self._cache.load_filters(cached):
            yield from self._with_filter(file, footer)
        told = self._from_metadata_table([one for one in files if one.filter_from == IN_METADATA])
        for one in files:
            if one.filter_from not in _NOT_CACHED:
                continue
            bloom = told.get(one.file.path)
            if bloom is None:
                yield from self._with_filter(one.file, None)
            else:
                yield from ((probe, bloom) for probe in self._probes[one.file.path])

    def _from_metadata_table(self, files: Sequence[LookupFile]) -> dict[str, BloomFilter]:
        """Filters that the metadata table has, by path; what is damaged there is read from the footer."""
        if not files:
            return {}
        table = Table.open(self._store, use_metadata=self._use_metadata)
        view = table.metadata_view(table.load_timeline())
        found = {} if view is None else stored_filters(view, [one.file for one in files])
        rows = {one.file.path: one.rows for one in files}
        filters = {path: usable_filter(one.text, one.type, rows[path]) for path, one in found.items()}
        usable = {path: bloom for path, bloom in filters.items() if bloom is not None}
        self.filters_told += len(usable)
        return usable

    def _with_filter(self, file: BaseFile, footer: Footer | None) -> Iterator[tuple[Probe, BloomFilter | None]]:
        probes, rows = self._probes[file.path], self._probes[file.path][0].file.rows
        if footer is None:
            footer = read_footer(self._store, file)
            rows = footer.rows
            self.footers_read += 1
            if self._may_mend:
                self._read.append((file, footer))
        bloom = usable_filter(footer.filter_text, footer.filter_type, rows)
        for probe in probes:
            yield probe, bloom

    def mend(self) -> tuple[CacheEntry, ...]:
        """Keep the filters that were read from footers, for the driver to name."""
        return self._cache.keep_filters(self._read)
