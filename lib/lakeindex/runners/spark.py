"""The Spark runner: one Spark task a task; the only place that imports pyspark, and that when a session is used.

A map is one Spark job over pickled tasks, one a partition, by a module-level function that does its task and gives back
the pickled result. It is an RDD, not a DataFrame: there is no row for a query plan to work on, and planning one takes
longer than a small task. Rows never pass through Spark; tasks read and write them through the storage port. Errors of
ours come back as values, so that the driver raises them as they were.
"""

from __future__ import annotations

import functools
import gc
import itertools
import pickle
import posixpath
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import InputError, LakeIndexError, UsageError
from lakeindex.index.locations.state_engine import StateSettings
from lakeindex.pipeline import TABLE_PREFIX
from lakeindex.run import row_pieces
from lakeindex.run.spec import RunSpec
from lakeindex.storage import StoreOptions, current_options, open_storage
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.progress_bars import NoProgress, Progress
from lakeindex.time_spent import current_account

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeindex.runners.keyed_state import KeyedState

_PIECES = pa.schema([pa.field("path", pa.string()), pa.field("rows", pa.int64())])


class SparkRunner:
    """Runs tasks on a Spark session.

    Args:
        session: a live session, or what gives one when it is first needed; it is not stopped here.
        slots: tasks at once that work is packed for; 0 means Spark's default parallelism.
    """

    def __init__(
        self, session: SparkSession | Callable[[], SparkSession], slots: int = 0, progress: Progress | None = None
    ) -> None:
        self._given = session
        self._slots = slots
        self._progress = progress if progress is not None else NoProgress()
        self._has_workers = False

    @cached_property
    def session(self) -> SparkSession:
        return self._given() if callable(self._given) else self._given

    @cached_property
    def slots(self) -> int:
        return self._slots or self.session.sparkContext.defaultParallelism

    @property
    def is_started(self) -> bool:
        return not callable(self._given) or "session" in self.__dict__

    def keyed_state(self, folder: str, settings: StateSettings) -> KeyedState:
        """State on Spark's state store, for an index that is kept there.

        Raises:
            UsageError: this PySpark has no keyed state of rows.
        """
        from pyspark.sql import GroupedData

        if not hasattr(GroupedData, "transformWithState"):
            raise UsageError(
                f"the STATE index needs a PySpark with GroupedData.transformWithState, {self.session.version} has none",
                culprit="hoodie.index.type",
                hint="install a newer PySpark, or give the table another index: "
                "`lakeindex index migrate TABLE --to RECORD_INDEX`",
            )
        from lakeindex.runners.keyed_state import KeyedState

        return KeyedState(self.session, folder, settings)

    def nearby(self) -> LocalRunner:
        """Threads of the driver."""
        return LocalRunner(progress=self._progress)

    def for_files(self, files: int) -> SparkRunner:  # noqa: ARG002 - the protocol's argument
        """Itself: its tasks are other processes as it is."""
        return self

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        from pyspark import cloudpickle

        # A task may hold a caller's function, of a module that workers have not got, or of none.
        payloads: list[bytes] = [cloudpickle.dumps(task) for task in tasks]  # type: ignore[no-untyped-call]  # no types
        # The function knows the stores' options. PySpark writes what it is given to parallelize to a file;
        # the function stays in memory.
        do = partial(_do_task, pickle.dumps(function))
        context = self.session.sparkContext
        context.setJobDescription(title)
        submitted = time.time()
        try:
            with self._progress.step(title, 1) as advance:
                done = context.parallelize(payloads, len(payloads)).map(do).collect()
                results = [pickle.loads(result) for _, result in done]  # noqa: S301 - our own tasks' results
                advance()
        finally:
            context.setJobDescription("")
        self._book(submitted, min(begun for begun, _ in done))
        for result in results:
            if isinstance(result, LakeIndexError):
                raise result
        return results

    def _book(self, submitted: float, begun: float) -> None:
        """Until its first task begins, a map starts executors and their workers, if it is the first one; a later map
        waits for a free slot. Clocks of two machines may differ: it is no more than the map took.
        """
        delay = min(max(begun - submitted, 0.0), time.time() - submitted)
        if self._has_workers:
            current_account().book(startup=0.0, waiting=delay)
        else:
            current_account().book(startup=delay, waiting=0.0)
        self._has_workers = True


def _do_task(pickled: bytes, payload: bytes) -> tuple[float, bytes]:
    """When the task began, seconds since the epoch, and its pickled result."""
    begun = time.time()
    function, task = pickle.loads(pickled), pickle.loads(payload)  # noqa: S301 - made by our own driver
    try:
        return begun, pickle.dumps(function(task))
    except LakeIndexError as error:
        return begun, pickle.dumps(error)
    finally:
        _keep_what_is_loaded()


@functools.cache
def _keep_what_is_loaded() -> None:
    """Spark's worker collects garbage after every task: once a process, take out of that what the first task left,
    the modules above all.
    """
    gc.freeze()


def write_pieces(frame: DataFrame, root: str, folder: str) -> list[str]:
    """Write a DataFrame's rows as Arrow files below ``root/folder``, of each Spark partition while it is made; returns
    their paths.

    Rows go from the executors to the store; the driver sees paths only. The order of the pieces is the partitions'.
    """
    frame_schema(frame)  # what cannot be written is refused before Spark begins
    context = frame.sparkSession.sparkContext
    context.setJobDescription("stage input: write the DataFrame's rows")
    try:
        rows = frame.mapInArrow(
            partial(_write_piece, root, folder, current_options()), "path string, rows bigint"
        ).collect()
    finally:
        context.setJobDescription("")
    return sorted(row.path for row in rows)


def frame_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame as Arrow has them. Raises: InputError: Arrow, or a table, has no type for one."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    zone: dict[str, Any] = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )  # PySpark 4
    fields: list[pa.Field] = []
    for field in frame.schema:
        found: list[pa.Field] = []
        if '"variant"' not in field.dataType.json().replace('"name":"variant"', ""):  # which Arrow takes for a struct
            with suppress(PySparkException):
                found = list(to_arrow_schema(StructType([field]), **zone))
        if not found:
            kind = field.dataType.simpleString()
            raise InputError(
                f"column {field.name!r} of the Spark DataFrame is {kind}, for which a table has no type",
                culprit=field.name,
                hint="cast it before, for example to a string or a bigint, or leave it out",
            )
        fields += found
    return pa.schema(fields)


def with_tables_written(spec: RunSpec, runner: SparkRunner | LocalRunner) -> RunSpec:
    """The run with every ``table:NAME`` input replaced by files that hold the rows of that Spark table.

    Raises:
        UsageError: there is one, and the runner is not Spark's.
    """
    inputs: list[str] = []
    for entry in spec.inputs:
        if not entry.startswith(TABLE_PREFIX):
            inputs.append(entry)
            continue
        if not isinstance(runner, SparkRunner):
            raise UsageError(
                f"{entry} is a table of Spark's, which only Spark reads",
                culprit=entry,
                hint="run it on Spark (execution: single or staged), or give files",
            )
        folder = f"{spec.run_id}/input/{uuid.uuid4().hex[:12]}"
        frame = runner.session.table(entry.removeprefix(TABLE_PREFIX))
        paths = write_pieces(frame, spec.checkpoints_uri, folder)
        inputs += [posixpath.join(spec.checkpoints_uri, path) for path in paths]
    return replace(spec, inputs=tuple(inputs))


def _write_piece(
    root: str, folder: str, options: StoreOptions, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    task = TaskContext.get()
    first = next(batches, None)
    if first is None:
        return
    part = task.partitionId() if task is not None else 0
    stem = f"{folder}/{part:05d}-{uuid.uuid4().hex[:8]}-"  # of this try: a straggler replaces nothing
    written = row_pieces.write_pieces(
        open_storage(root, options), stem, first.schema, itertools.chain([first], batches)
    )
    paths, rows = zip(*written, strict=True)
    yield pa.record_batch([pa.array(paths), pa.array(rows, pa.int64())], schema=_PIECES)


def frame_of_pieces(
    session: SparkSession, pieces: int, read: Callable[[int], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> DataFrame:
    """A DataFrame whose rows are read on the executors, whenever Spark asks for them.

    Args:
        read: gives the rows of a piece by its number; it is pickled.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    numbers = session.range(0, pieces, 1, max(pieces, 1))
    return numbers.mapInArrow(partial(_read, read), from_arrow_schema(schema))


def _read(
    read: Callable[[int], Iterator[pa.RecordBatch]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from read(number)
