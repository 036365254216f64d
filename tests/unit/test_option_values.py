"""Options as they are read, and what is taken where none is given."""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from pathlib import PurePosixPath

import pyarrow as pa
import pytest

from lakeindex.api import batch_data
from lakeindex.api.batch_data import with_inputs
from lakeindex.api.table import LakeTable
from lakeindex.cli.shared import parse_pairs
from lakeindex.errors import OptionError
from lakeindex.index.bloom_options import BloomOptions
from lakeindex.index.hbase.hbase_options import HBaseOptions
from lakeindex.index.registry import index_for
from lakeindex.model import IndexType, Operation
from lakeindex.options.option_table import BY_KEY, CREATE_BY_KEY
from lakeindex.options.parse import NOTED_VALUES, index_spec, option_texts, parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.pipeline import default_checkpoints, run_id_of
from lakeindex.run.spec import RunSpec
from lakeindex.storage import open_storage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("lakeindex.lock.lease", "1"),
        ("lakeindex.lock.lease", "86401"),
        ("lakeindex.lock.lease", "2.5"),
        ("hoodie.index.bloom.fpp", "0"),
        ("hoodie.index.bloom.fpp", "1"),
        ("hoodie.index.bloom.fpp", "nan"),
        ("hoodie.index.hbase.qps.fraction", "0"),
        ("lakeindex.memory", "63m"),
        ("lakeindex.memory", "1t"),
        ("lakeindex.footer.cache", "yes"),
        ("lakeindex.footer.cache", "1"),
        ("hoodie.metadata.record.index.growth.factor", "0.9"),
    ],
)
def test_a_value_that_is_not_valid_is_refused_by_name(key: str, text: str):
    with pytest.raises(OptionError, match=key) as caught:
        parse_options({key: text})
    assert caught.value.culprit == key
    assert caught.value.hint


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("lakeindex.lock.lease", "2", "lock_lease_seconds", 2),
        ("lakeindex.memory", "64m", "memory", 64 * 2**20),
        ("lakeindex.memory", "65536k", "memory", 64 * 2**20),
        ("lakeindex.memory", "1g", "memory", 2**30),
        ("lakeindex.footer.cache", " FALSE ", "footer_cache", False),
        ("lakeindex.csv.null", "NA, NULL ,", "csv_nulls", ("NA", "NULL", "")),
        ("lakeindex.csv.null", " ", "csv_nulls", (" ",)),
    ],
)
def test_a_value_that_is_valid_is_what_it_says(key: str, text: str, field: str, value: object):
    assert getattr(parse_options({key: text}), field) == value


def edges(valid: str) -> tuple[list[str], list[str]]:
    """Of what the tables of docs/options.md say is valid: texts at its edges, and texts beyond them."""
    if " | " in valid:
        return valid.split(" | "), [f"{valid.split(' | ', maxsplit=1)[0]}x", "x", "7", ""]
    if valid in {"names, separated by commas", "columns, separated by commas"}:
        return ["one"], ["one,,two", ",one", "one,"]
    if found := re.search(r"(\d+) \.\. (\d+)", valid):
        low, high = int(found[1]), int(found[2])
        return [str(low), str(high)], [str(low - 1), str(high + 1), "x", ""]
    if found := re.search(r"\b(\d+) or more", valid):
        return [found[1]], [str(int(found[1]) - 1), "x", ""]
    return [], []


def test_what_is_said_to_be_valid_is_and_what_lies_just_beyond_is_not():
    """Of every option, and of those of a new table."""
    asked, wrong = 0, []
    for key, option in {**CREATE_BY_KEY, **BY_KEY}.items():
        good, bad = edges(option.valid)
        for text in good:
            option.parse(text)
        for text in bad:
            asked += 1
            with suppress(ValueError):
                wrong.append((key, text, option.parse(text)))
    assert wrong == []
    assert asked > 150


def test_an_option_of_an_index_is_a_value_of_its_own_class():
    config = parse_options({"hoodie.index.hbase.qps.fraction": "1", "hoodie.index.hbase.put.batch.size": "7"})
    assert config.of(HBaseOptions) == HBaseOptions(qps_fraction=1.0, put_batch=7)
    assert config.of(BloomOptions) == BloomOptions()


def test_what_is_taken_where_nothing_is_said():
    """A default is a promise: what changes here changes what existing calls do."""
    config = WriteConfig()
    moving = (IndexType.GLOBAL_BLOOM, IndexType.GLOBAL_SIMPLE, IndexType.STATE)
    for kind in (*moving, IndexType.RECORD_INDEX, IndexType.HBASE):
        assert index_for(index_spec(kind, config)).moves_rows(config) is (kind in moving)
    assert (config.pending_foreign_max_age_seconds, config.lock_lease_seconds, config.lock_wait_seconds) == (
        7_200,
        60,
        300,
    )
    assert (config.max_file_bytes, config.small_file_bytes) == (120 * 2**20, 100 * 2**20)
    assert (config.cleaner_commits, config.archive_commits, config.conflict_retries) == (10, 20, 5)


@pytest.mark.parametrize(
    "key", ["hoodie.populate.meta.fields", "hoodie.metadata.index.column.stats.enable", "hoodie.index.clas", "no.such"]
)
def test_an_option_that_is_none_of_ours_says_what_to_do(key: str):
    with pytest.raises(OptionError, match=key) as caught:
        parse_options({key: "true"})
    assert caught.value.hint
    if key.startswith("hoodie.populate"):
        assert "when the table is created" in caught.value.hint


def test_an_option_of_another_index_has_no_meaning():
    config = parse_options({"hoodie.bucket.index.num.buckets": "4"})
    with pytest.raises(OptionError, match=r"num\.buckets has no meaning with index type BLOOM"):
        index_spec(IndexType.BLOOM, config)
    assert index_spec(IndexType.BUCKET, config).option("hoodie.bucket.index.num.buckets") == "4"


def test_an_option_given_twice_with_two_values_is_refused():
    assert parse_pairs(("a=1", "a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    with pytest.raises(OptionError, match="given twice: '1' and '2'"):
        parse_pairs(("a=1", "a=2"))


@pytest.mark.parametrize("uri", ["lake/orders", "lake/orders/", "s3://b/orders//"])
def test_run_folders_lie_beside_the_table(uri: str):
    assert default_checkpoints(uri) == f"{uri.rstrip('/')}.lakeindex"


def test_two_batches_never_share_a_run_folder():
    ids = ["a/b", "a-b", "a b", "x" * 200 + "1", "x" * 200 + "2", "é", "è"]
    assert len({run_id_of(one) for one in ids}) == len(ids)
    assert run_id_of("a/b") == run_id_of("a/b")


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 10, 11])
def test_all_rows_of_a_frame_reach_the_run(rows: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_data, "_IN_MEMORY_BYTES", 16)  # two numbers a piece
    table = pa.table({"n": pa.array(range(rows), pa.int64())})
    name = f"memory://{uuid.uuid4()}"
    spec = with_inputs(RunSpec("t", name, "run", "batch", Operation.UPSERT, ()), table, LocalRunner(1))
    pieces = [
        pa.ipc.open_file(open_storage(name).read(path.removeprefix(f"{name}/"))).read_all() for path in spec.inputs
    ]
    assert pa.concat_tables(pieces).equals(table)


def test_maintenance_reads_the_whole_table_only_if_asked():
    table = make_table(f"memory://{uuid.uuid4()}")
    assert isinstance(table, LakeTable)
    table.upsert(batch_of([Row("a", "x", 1, "v")]), checkpoints=f"memory://{uuid.uuid4()}")
    runs = f"memory://{uuid.uuid4()}"
    assert "check" not in [step.step for step in table.maintain(checkpoints=runs).steps]
    assert [step.step for step in table.maintain(["check"], checkpoints=runs).steps] == ["check"]
    in_order = table.maintain(["archive", "settle", "clean"], checkpoints=runs).steps
    assert [step.step for step in in_order] == ["settle", "clean", "archive"], (
        "what cleaning leaves holds archiving back"
    )


def test_options_are_equal_whatever_order_and_defaults_they_were_given_in() -> None:
    given = {
        "hoodie.bloom.index.prune.by.ranges": "false",
        "hoodie.bucket.index.num.buckets": "3",
        "hoodie.index.type": "BUCKET",
    }
    assert parse_options(given) == parse_options(dict(reversed(list(given.items()))))
    assert parse_options({}).having(BloomOptions, "prune_by_ranges", True) == parse_options({})


def test_options_from_python_are_texts_bools_numbers_and_paths() -> None:
    values: dict[object, str] = {"a": "a", True: "true", 3: "3", 0.5: "0.5", PurePosixPath("/x/y"): "/x/y"}
    assert option_texts({f"o{at}": value for at, value in enumerate(values)}) == {
        f"o{at}": text for at, text in enumerate(values.values())
    }
    for wrong in (None, ["a"], b"a"):
        with pytest.raises(OptionError, match=r"option hoodie\.index\.type cannot be "):
            option_texts({"hoodie.index.type": wrong})


def test_options_that_change_nothing_take_what_is_done_only() -> None:
    """Of an option of Hudi's that asks for what is done in any case, another value is refused and not passed over."""
    only = {
        "hoodie.clean.failed.writes.policy": ("LAZY", "EAGER"),
        "hoodie.cleaner.policy.failed.writes": ("lazy", "NEVER"),
        "hoodie.index.bucket.engine": ("simple", "CONSISTENT_HASHING"),
        "hoodie.bucket.index.partition.rule.type": ("Regex", "glob"),
        "hoodie.combine.before.upsert": (True, False),
        "hoodie.datasource.hive_sync.mode": ("hms", "jdbc"),
        "hoodie.datasource.hive_sync.use_jdbc": (False, True),
        "hoodie.combine.before.delete": ("TRUE", "false"),
    }
    assert only.keys() == NOTED_VALUES.keys()
    for key, (value, other) in only.items():
        assert [note for note in parse_options({key: value}).notes if note.startswith(f"{key} changes nothing")]
        with pytest.raises(OptionError, match=key):
            parse_options({key: other})
