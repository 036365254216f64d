"""Work out what a run needs to know about a table: its columns, how keys are made, which version wins."""

from __future__ import annotations

from msgspec.structs import replace

from lakeindex.errors import OptionError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.index.bucket_options import layout_of
from lakeindex.model import IndexType, MergeMode
from lakeindex.options.option import INDEX_OPTION
from lakeindex.options.types import WriteConfig
from lakeindex.run.spec import TableFacts
from lakeindex.table.binding import BINDING_PROPERTY, state_index
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_change_times, index_in_force
from lakeindex.table.index_inference import check_noted_buckets, index_of_stored
from lakeindex.table.key_spelling import check_bound, spec_given, spelling_of
from lakeindex.table.refusals import check_virtual_index
from lakeindex.table.stored_keys import not_compared, remember_compared, row_elsewhere, sample_rows
from lakeindex.table.table_columns import written_schema
from lakeindex.write.keys.key_generators import KeySpec


def bind_for_write(table: Table, snapshot: Snapshot, config: WriteConfig) -> Table:
    """The table with everything bound that writers must agree on; the spelling of its keys is compared with its rows.

    Raises:
        OptionError: an option differs from what is bound, or the table needs a choice.
        TableUnsupportedError: its writer makes keys in a way that is not followed.
        TableCorruptError: stored keys are spelled in two ways, or not as it is bound.
    """
    if table.binding is not None:
        bound = table.bind(config)
        foreign = not_compared(bound, snapshot)
        if foreign:
            spec = KeySpec.from_properties(bound.key_properties())
            samples = sample_rows(bound, foreign, spec, written_schema(bound, snapshot))
            check_bound(bound, spec, samples, may_lie_elsewhere=bound.may_have_been_global())
            remember_compared(bound, snapshot)
        return bound if config.index_type is None else _stated(bound, snapshot, config.index_type)
    files = snapshot.base_files_all()
    schema = written_schema(table, snapshot) if files else None
    index = index_of_stored(table, snapshot, config)
    if index is not None:
        check_virtual_index(table.properties, index.index_type)
    spec = spec_given(table, config)
    samples = sample_rows(table, files, spec, schema) if schema is not None else []
    is_global = index is not None and index.is_global
    spelling = spelling_of(table, spec, samples, config, may_lie_elsewhere=is_global)
    bound = spelling.typed(table).bind(config, index=index, spelling=spelling.bound(config))
    remember_compared(bound, snapshot)
    return bound


def _stated(table: Table, snapshot: Snapshot, index_type: IndexType) -> Table:
    """A bound table with the index that is now stated for the first time: from now on its paths say its rows' values.

    Raises:
        OptionError: a row lies in another partition than its columns say.
    """
    binding = table.binding
    if binding is None or not table.has_only_found_index() or table.may_have_been_global():
        return table  # under a global index paths say nothing, even if it is stated
    found = row_elsewhere(table, snapshot)
    if found is not None:
        raise OptionError(
            f"option {INDEX_OPTION} cannot be {index_type}: a row lies in partition {found.stored!r} "
            f"({found.file.path}), and its columns say {found.made!r}: its writer's index is global",
            culprit=INDEX_OPTION,
            hint=f"leave the option out, or move the table to a global index: `lakeindex index migrate TABLE --to "
            f"{IndexType.GLOBAL_BLOOM}`",
        )
    kept = BINDING_PROPERTY not in table.properties.entries
    return replace(table, binding=state_index(table.storage, binding, keep_copy=kept))


def facts_of(table: Table, snapshot: Snapshot, config: WriteConfig, *, as_noted: bool = True) -> TableFacts:
    """Facts for a run with these options, from a bound table.

    Args:
        as_noted: buckets that are not those that Hudi has noted are refused: keys are placed by them.
    """
    binding = table.bound_for(config)
    properties = table.properties
    event_time = binding.merge_mode is MergeMode.EVENT_TIME_ORDERING
    changes = index_change_times(table.storage)
    index = index_in_force(table.storage, snapshot.timeline, binding.index, changes)
    check_virtual_index(properties, index.index_type)
    if index.index_type is IndexType.BUCKET and as_noted:
        check_noted_buckets(table, snapshot.timeline, layout_of(index))
    return TableFacts(
        name=table.name,
        schema=written_schema(table, snapshot),
        keys=KeySpec.from_properties(table.key_properties()),
        ordering_fields=properties.ordering_fields if event_time else (),
        merge_mode=binding.merge_mode,
        index=index,
        has_virtual_keys=not properties.populate_meta_fields,
        delete_mark=properties.delete_mark,
        believes_paths=table.why_paths_are_no_evidence(changes) is None,
    )
