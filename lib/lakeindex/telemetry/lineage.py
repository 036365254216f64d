"""OpenLineage events of runs; ``docs/metrics.md`` says what is in them.

Where they go is OpenLineage's own business: ``OPENLINEAGE_URL``, ``OPENLINEAGE_CONFIG`` or ``openlineage.yml``. All
objects are those of the package openlineage-python, which check what they are given. Datasets have the names of
OpenLineage's naming specification.
"""

from __future__ import annotations

import json
import os
import posixpath
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from msgspec import field

from lakeindex.catalogs.syncing import lineage_names
from lakeindex.errors import LakeIndexError, ObjectNotFoundError, UsageError
from lakeindex.frozen import Frozen
from lakeindex.model import VERSION
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.pipeline import TABLE_PREFIX, Stage
from lakeindex.run.run_folders import is_run_of
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.storage.paths import plain, with_one_scheme
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import table_schema
from lakeindex.tasks.stores import storage_at
from lakeindex.telemetry.outcome import RunEnding, RunOutcome, ended_well

try:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import (
        dataset_version_dataset,
        error_message_run,
        input_statistics_input_dataset,
        job_type_job,
        output_statistics_output_dataset,
        parent_run,
        processing_engine_run,
        schema_dataset,
        storage_dataset,
        symlinks_dataset,
    )
    from openlineage.client.uuid import generate_new_uuid
except ImportError as missing:
    raise UsageError(
        "option lakeindex.openlineage needs the package openlineage-python",
        culprit="lakeindex.openlineage",
        hint="pip install 'lakeindex[lineage]', or leave the option out",
    ) from missing

PRODUCER: Final = f"urn:lakeindex:{VERSION}"
NAMESPACE_VARIABLE: Final = "OPENLINEAGE_NAMESPACE"
PARENT_VARIABLE: Final = "OPENLINEAGE_PARENT_ID"
ROOT_VARIABLE: Final = "OPENLINEAGE_ROOT_PARENT_ID"
OPEN_RUN_FILE: Final = "openlineage.json"


class LineageFacets(Frozen):
    """What OpenLineage is told of a run; the fields of the Airflow provider's ``OperatorLineage``.

    Attributes:
        inputs: where the batch came from.
    """

    inputs: list[InputDataset] = field(default_factory=list)
    outputs: list[OutputDataset] = field(default_factory=list)
    run_facets: dict[str, Any] = field(default_factory=dict)
    job_facets: dict[str, Any] = field(default_factory=dict)


def lineage_facets(
    table_uri: str,
    inputs: Sequence[str],
    *,
    summary: RunSummary | None = None,
    schema: pa.Schema | None = None,
    catalogs: Sequence[tuple[str, str]] = (),
    error: BaseException | None = None,
) -> LineageFacets:
    """Datasets and facets of a run.

    Args:
        inputs: files, folders and ``*`` patterns of the batch.
        catalogs: namespace and name of the table in each catalog that has it.
    """
    run_facets: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(VERSION, "lakeindex", producer=PRODUCER)
    }
    if error is not None:
        trace = "".join(traceback.format_exception(error))
        run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            _message(error), "PYTHON", trace, producer=PRODUCER
        )
    job_type = job_type_job.JobTypeJobFacet("BATCH", "LAKEINDEX", "JOB", producer=PRODUCER)
    return LineageFacets(
        _inputs(inputs, summary), [_output(table_uri, summary, schema, catalogs)], run_facets, {"jobType": job_type}
    )


def facets_of_summary(
    table_uri: str, inputs: Sequence[str], summary: Mapping[str, Any], options: Mapping[str, str] = MappingProxyType({})
) -> LineageFacets:
    """Datasets and facets of a run that ended well, from the JSON it left.

    Args:
        inputs: files, folders and ``*`` patterns of the batch.
        options: of the run.
    """
    ending = ended_well(RunSummary.from_json(json.dumps(summary)), 0)
    names = _in_catalogs(table_uri, parse_options(options))
    return lineage_facets(table_uri, inputs, summary=ending.counted, schema=_columns(table_uri), catalogs=names)


def lineage_of(stage: Stage | None, parent: str | None = None) -> Lineage:
    """Lineage of a run.

    Args:
        stage: the only stage that this process does, or None for all of them.
        parent: ``NAMESPACE/JOB/RUN ID`` of what started the run; by default what ``OPENLINEAGE_PARENT_ID`` says.
    """
    return Lineage(stage, parent or os.environ.get(PARENT_VARIABLE))


class Lineage:
    """Emits a run's events: START once, then COMPLETE, FAIL or ABORT.

    The stages of a DAG are processes of their own but one run: the first leaves the run's id in the run's folder. A
    stage that is tried again after a failure starts a new run, since FAIL ended the one before.
    """

    def __init__(self, stage: Stage | None, parent: str | None) -> None:
        self._stage = stage
        self._parent = parent
        self._run_id: str | None = None

    def start(self, spec: RunSpec) -> None:
        """The work starts: START, if it is the run's first."""
        self._run_id = self._open_run(spec)
        if self._run_id is None:
            self._run_id = str(generate_new_uuid())
            self._emit(spec, RunState.START, lineage_facets(spec.table_uri, _outside(spec)), datetime.now(UTC))
            self._mark(spec, is_open=True)

    def end(self, spec: RunSpec, ending: RunEnding) -> None:
        if self._run_id is None:
            self.start(spec)  # it failed before its inputs were known, or START could not be told
        facets = lineage_facets(
            spec.table_uri,
            _outside(spec),
            summary=ending.counted,
            schema=None if ending.summary is None else _columns(spec.table_uri),
            catalogs=() if ending.summary is None else _in_catalogs(spec.table_uri, spec.config),
            error=ending.error,
        )
        self._emit(spec, _state(ending), facets, datetime.fromtimestamp(ending.finished_at, UTC))
        self._mark(spec, is_open=False)

    def _open_run(self, spec: RunSpec) -> str | None:
        """The id of the run that an earlier stage's process started and none ended."""
        if self._stage in {None, Stage.STAGE_INPUT}:
            return None
        try:
            found = json.loads(storage_at(spec.checkpoints_uri).read(f"{spec.run_id}/{OPEN_RUN_FILE}"))
        except (ObjectNotFoundError, ValueError):
            return None
        return str(found["run_id"]) if found.get("open") else None

    def _mark(self, spec: RunSpec, *, is_open: bool) -> None:
        store = storage_at(spec.checkpoints_uri)
        if self._stage is not None and is_run_of(store, spec.run_id, spec.table_uri):  # not into a root that is refused
            text = json.dumps({"run_id": self._run_id, "open": is_open})
            store.write(f"{spec.run_id}/{OPEN_RUN_FILE}", text.encode())

    def _emit(self, spec: RunSpec, state: RunState, facets: LineageFacets, at: datetime) -> None:
        parent = _parent_facet(self._parent)
        run_facets = {**facets.run_facets, **({} if parent is None else {"parent": parent})}
        event = RunEvent(
            eventTime=at.isoformat(),
            eventType=state,
            producer=PRODUCER,
            run=Run(str(self._run_id), run_facets),
            job=Job(os.environ.get(NAMESPACE_VARIABLE, "default"), job_name(spec), facets.job_facets),
            inputs=facets.inputs,
            outputs=facets.outputs,
        )
        client = OpenLineageClient()
        client.emit(event)
        client.close()


def job_name(spec: RunSpec) -> str:
    """``lakeindex.upsert.`` or ``lakeindex.delete.`` and the table's path: the same in every run."""
    return f"lakeindex.{str(spec.operation).lower()}.{dataset_name(spec.table_uri)[1].strip('/').replace('/', '.')}"


def _state(ending: RunEnding) -> RunState:
    if ending.outcome is not RunOutcome.FAILED:
        return RunState.COMPLETE
    return RunState.FAIL if isinstance(ending.error, Exception) else RunState.ABORT


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _outside(spec: RunSpec) -> list[str]:
    """Inputs that are data of their own: not what was handed over in memory and lies in the run's folder."""
    own = f"{spec.checkpoints_uri.rstrip('/')}/{spec.run_id}/"
    return [uri for uri in spec.inputs if not uri.startswith(own)]


def _inputs(uris: Sequence[str], summary: RunSummary | None) -> list[InputDataset]:
    named = dict.fromkeys(dataset_name(uri) for uri in uris if not uri.startswith(TABLE_PREFIX))
    facets: dict[str, Any] = {}
    if summary is not None and len(named) == 1:
        facets["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=summary.rows_in, producer=PRODUCER
        )
    return [InputDataset(namespace, name, inputFacets=dict(facets)) for namespace, name in named]


def _output(
    table_uri: str, summary: RunSummary | None, schema: pa.Schema | None, catalogs: Sequence[tuple[str, str]]
) -> OutputDataset:
    namespace, name = dataset_name(table_uri)
    facets: dict[str, Any] = {"storage": storage_dataset.StorageDatasetFacet("hudi", "parquet", producer=PRODUCER)}
    if catalogs:
        named = [symlinks_dataset.Identifier(*one, type="TABLE") for one in catalogs]
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(named, producer=PRODUCER)
    output_facets: dict[str, Any] = {}
    if schema is not None:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=_fields(schema), producer=PRODUCER)
    if summary is not None and summary.instant is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(summary.instant, producer=PRODUCER)
        output_facets["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=summary.inserts + summary.updates + summary.moved,
            size=summary.bytes_written,
            fileCount=summary.files_created + summary.files_rewritten,
            producer=PRODUCER,
        )
    return OutputDataset(namespace, name, facets=facets, outputFacets=output_facets)


def _fields(columns: pa.Schema | pa.StructType) -> list[Any]:
    return [
        schema_dataset.SchemaDatasetFacetFields(
            column.name,
            str(column.type),
            ordinal_position=number,
            fields=_fields(column.type) if pa.types.is_struct(column.type) else [],
        )
        for number, column in enumerate(columns, 1)
    ]


def _columns(table_uri: str) -> pa.Schema | None:
    """The table's columns; None if they cannot be read, which is no reason to say nothing of the run."""
    try:
        table = Table.at(table_uri)
        return table_schema(table, table.snapshot())
    except LakeIndexError:
        return None


def _in_catalogs(table_uri: str, config: WriteConfig) -> tuple[tuple[str, str], ...]:
    """Names of the table in catalogs; none if they do not answer, as :func:`_columns`."""
    try:
        return lineage_names(table_uri, config)
    except LakeIndexError:
        return ()


def _parent_facet(parent: str | None) -> Any:
    found = _parts(parent)
    if found is None:
        return None
    namespace, name, run_id = found
    above = _parts(os.environ.get(ROOT_VARIABLE))
    root = None
    if above is not None:
        root = parent_run.Root(parent_run.RootRun(above[2]), parent_run.RootJob(above[0], above[1]))
    run, job = parent_run.Run(run_id), parent_run.Job(namespace, name)
    return parent_run.ParentRunFacet(run, job, root, producer=PRODUCER)


def _parts(text: str | None) -> tuple[str, str, str] | None:
    """``NAMESPACE/JOB/RUN ID``; a namespace may hold slashes."""
    parts = (text or "").rsplit("/", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and all(parts) else None


def dataset_name(uri: str) -> tuple[str, str]:
    """Namespace and name of a table's folder, of an input file, or of the folder that a ``*`` pattern looks into.

    ========================  ======================================================  ==============
    place                     namespace                                               name
    ========================  ======================================================  ==============
    ``/lake/t``, ``file://``  ``file``                                                ``/lake/t``
    ``s3://b/t``, ``s3a://``  ``s3://b``                                              ``t``
    ``gs://b/t``              ``gs://b``                                              ``t``
    ``az://c/t``              ``abfss://c@ACCOUNT.dfs.core.windows.net``, if the      ``/t``
                              environment names the account; else ``az://c``
    ========================  ======================================================  ==============
    """
    place = with_one_scheme(_without_pattern(plain(uri)))
    scheme, separator, rest = place.partition("://")
    if not separator:
        return "file", place
    authority, _, path = rest.partition("/")
    path = path.strip("/")
    if scheme in {"abfs", "abfss"}:
        return f"abfss://{authority}", f"/{path}"
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if scheme == "az" and account:
        return f"abfss://{authority}@{account}.dfs.core.windows.net", f"/{path}"
    return f"{scheme}://{authority}", path or "/"


def _without_pattern(uri: str) -> str:
    """The place as it is; of a pattern, the folder above the first level with a ``*``."""
    levels = uri.rstrip("/").split("/")
    for number, level in enumerate(levels):
        if "*" in level:
            return "/".join(levels[:number]) or "/"
    return posixpath.join("/".join(levels)) or "/"
