"""Stage 4: exact match of the candidates in each file's key column; the row position of each key that is there.

Under event time the ordering column is read beside the keys, so that what an older row is worth is known before
anything is planned: a late row neither moves nor rewrites anything. The same holds for columns that conditions of the
write name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeindex.index.registry import index_for
from lakeindex.pipeline import FOUND, Stage
from lakeindex.run.checkpoints import Manifest, Part, arrow_schema, columns_of, digest_of_text
from lakeindex.run.chunks import Chunk, chunks_of
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.spec import RunSpec, TableFacts, conditions_of, event_time_mark, run_folder
from lakeindex.stages.verify_keys.carried import (
    VerifiedBefore,
    VerifyResult,
    carry_locations,
    carry_tasks,
    same_files,
)
from lakeindex.stages.verify_keys.matching import FileCandidates, VerifyTask, pairs_of, verify_files
from lakeindex.stages.verify_keys.missed_keys import LookAgain, look_again
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks

_OPEN_COST = 5_000.0
_ROW_BYTES = 100.0
_KEYS_SHARE = 0.25
"""Of a base file, what its key column takes."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt at the stage: what its tasks are about, who schedules them, and the folder that they write to."""

    spec: RunSpec
    facts: TableFacts
    chunks: list[Chunk]
    files: list[LookupFile]
    runner: Runner
    folder: str


def verify_keys(
    spec: RunSpec,
    facts: TableFacts,
    staged: Manifest,
    lookup: Manifest,
    candidates: Manifest,
    runner: Runner,
    *,
    before: VerifiedBefore | None = None,
) -> Manifest:
    """Run the stage, or take over its checkpoint.

    Args:
        spec: the run.
        facts: the table.
        staged: manifest of stage 1.
        lookup: manifest of stage 2, whose snapshot the locations refer to.
        candidates: manifest of the stage that proposed candidates.
        runner: schedules the tasks.
        before: the stage as this run did it on an earlier snapshot.
    """
    config = spec.config
    folder = run_folder(spec)
    moves = index_for(facts.index).moves_rows(config)
    basis = digest_of_text(candidates.digest, event_time_mark(facts), moves, *conditions_of(spec, facts).texts)
    done = folder.read_manifest(Stage.VERIFY_KEYS)
    if done is not None and done.basis == basis and folder.is_whole(done):
        return done
    chunks = chunks_of(folder, staged)
    files = read_files(folder, lookup.parts("files")[0])
    attempt = _Attempt(spec, facts, chunks, files, runner, folder.new_attempt(Stage.VERIFY_KEYS))
    proposed = proposed_by(candidates)
    # a stored index has nothing to take over: what it does not know is looked for everywhere, by key and not by file
    same = same_files(folder, before, files, proposed) if before is not None and not facts.index_type.is_stored else {}
    results = _carry(attempt, before, same, proposed) if before is not None and same else ()
    rest = frozenset(same.values())
    results += _verify(attempt, proposed, first=len(results), known=rest)
    if facts.index_type.is_stored and any(r.pairs != r.true_pairs for r in results):
        located = tuple(r.part for r in results)
        looked = LookAgain(spec, facts, tuple(files), proposed, lookup.parts("searched"), located)
        again = look_again(looked, chunks, runner, f"{attempt.folder}/again")
        results += _verify(attempt, again, first=len(results))
    lines = [line for r in results for line in r.lines]
    return _manifest(spec, basis, results, lines, chunks, f"{attempt.folder}/found.parquet")


def _carry(
    attempt: _Attempt, before: VerifiedBefore, same: dict[int, int], proposed: Sequence[Part]
) -> tuple[VerifyResult, ...]:
    """Locations in files that are as they were."""
    now = set(same.values())
    spec = attempt.spec
    pairs = sum(one.pairs for one in _work(spec, attempt.files, proposed)[0] if one.file.number in now)
    tasks = carry_tasks(spec, before, same, pairs, attempt.folder)
    near = for_work(attempt.runner, sum(part.bytes for part in before.located), spec.config)
    return run_tasks(near, carry_locations, tasks, "verify keys: take over what did not change")


def _verify(
    attempt: _Attempt, proposed: Sequence[Part], *, first: int, known: frozenset[int] = frozenset()
) -> tuple[VerifyResult, ...]:
    """Verify what was proposed, except in files that are ``known``; ``first`` is the number of the first task."""
    spec, chunks = attempt.spec, attempt.chunks
    every, used = _work(spec, attempt.files, proposed)
    work = [one for one in every if one.file.number not in known]
    size = _KEYS_SHARE * sum(f.file.file.size_bytes for f in work) + sum(
        {chunks[c].part.path: chunks[c].part.bytes for one in work for c in used[one.file.number]}.values()
    )
    near = for_work(attempt.runner, size, spec.config, len(work))
    packs = pack([f.pairs + f.file.file.size_bytes / _ROW_BYTES * 0.2 + _OPEN_COST for f in work], near.slots * 3)
    tasks = []
    for n, numbers in enumerate(packs, first):
        mine = tuple(work[i] for i in numbers)
        names = {c: chunks[c] for f in mine for c in used[f.file.number]}
        tasks.append(VerifyTask(spec, attempt.facts, mine, names, n, f"{attempt.folder}/locations/{n:05d}.parquet"))
    return run_tasks(near, verify_files, tasks, "verify keys: exact match in the key column")


def _manifest(
    spec: RunSpec,
    basis: str,
    results: Sequence[VerifyResult],
    lines: list[tuple[int, ...]],
    chunks: list[Chunk],
    path: str,
) -> Manifest:
    columns = columns_of(lines, len(FOUND))
    schema = arrow_schema(FOUND)
    found = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    pairs = sum(r.pairs for r in results)
    true = sum(r.true_pairs for r in results)
    return Manifest(
        stage=Stage.VERIFY_KEYS,
        run_id=spec.run_id,
        basis=basis,
        tables={
            "locations": tuple(r.part for r in results),
            "found": (run_folder(spec).write_table(path, found),),
        },
        counters={
            "rows_in": sum(c.rows for c in chunks),
            "rows_out": true,
            "files": len({line[0] for line in lines}),
            "pairs_in": pairs,
            "pairs_out": true,
            "false_positives": pairs - true,
        },
    )


def _work(
    spec: RunSpec, files: list[LookupFile], proposed: Sequence[Part]
) -> tuple[list[FileCandidates], dict[int, set[int]]]:
    """What each file has to verify, and the chunks that are needed for it."""
    folder = run_folder(spec)
    parts: dict[int, list[Part]] = {}
    used: dict[int, set[int]] = {}
    pairs: dict[int, int] = {}
    for part in proposed:
        table = folder.read_table(part)
        counts = pairs_of(table)
        for file, chunk, count in zip(*(table.column(n).to_pylist() for n in ("file", "chunk")), counts, strict=True):
            mine = parts.setdefault(file, [])
            if not mine or mine[-1] is not part:
                mine.append(part)
            used.setdefault(file, set()).add(chunk)
            pairs[file] = pairs.get(file, 0) + count
    return [FileCandidates(files[n], tuple(parts[n]), pairs[n]) for n in sorted(parts)], used


def proposed_by(candidates: Manifest) -> tuple[Part, ...]:
    """Parts of the candidates, or of the ranges where no stage made candidates of them."""
    return candidates.parts("candidates") or candidates.parts("ranges")
