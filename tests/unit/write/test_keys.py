from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import OptionError, SchemaMismatchError, TableUnsupportedError
from lakeindex.format.partitions import partition_path_problem
from lakeindex.model import KeyGeneratorType
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec, PartitionKind
from lakeindex.write.keys.time_partitions import TimeOptions, TimeType
from tests.strategies import any_texts

SIMPLE = PartitionKind.SIMPLE


def spec(keys: str, parts: str = "", **options: object) -> KeySpec:
    fields = tuple((part, SIMPLE) for part in parts.split(",") if part)
    return KeySpec(tuple(keys.split(",")), fields, **options)  # type: ignore[arg-type]  # options of any type


def test_rows_without_a_key_say_why() -> None:
    batch = pa.table({"id": ["a", None, ""], "n": [1, None, 3]})
    keyed = KeyGenerator(spec("id")).keys_of(batch)
    assert keyed.record_key.to_pylist() == ["a", None, None]
    assert keyed.problem.to_pylist() == [None, "record key field 'id' is null", "record key field 'id' is empty"]
    assert keyed.bad_rows == 2
    assert keyed.partition_path.to_pylist() == ["", "", ""]


def test_named_parts() -> None:
    batch = pa.table({"id": ["a", None, "", None, "x,y:z"], "k": ["1", "2", None, None, ""]})
    keyed = KeyGenerator(spec("id,k", generator=KeyGeneratorType.COMPLEX)).keys_of(batch)
    assert keyed.record_key.to_pylist() == [
        "id:a,k:1", "id:__null__,k:2", None, None, "id:x,y:z,k:__empty__",
    ]  # fmt: skip
    assert keyed.problem.to_pylist()[2:4] == ["record key fields 'id', 'k' are all null or empty"] * 2


def test_one_field_complex_key_in_both_encodings() -> None:
    batch = pa.table({"id": ["a", None]})
    new = spec("id", generator=KeyGeneratorType.COMPLEX, complex_new_encoding=True)
    old = spec("id", generator=KeyGeneratorType.COMPLEX, complex_new_encoding=False)
    assert new.encoding_is_open
    assert KeyGenerator(new).keys_of(batch).record_key.to_pylist() == ["a", None]
    assert KeyGenerator(old).keys_of(batch).record_key.to_pylist() == ["id:a", None]


ESCAPES = [
    "../x", "..", ".", "/x", "/", "x/", "a//b", "a/../../b", "a/./b", ".hoodie", ".hoodie/x", ".hoodie_partition_metadata",
    "x/.hoodie", "a\0b", "../../etc/passwd", "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize("value", ESCAPES)
def test_value_that_leaves_the_folder_is_set_aside(value: str) -> None:
    batch = pa.table({"id": ["a", "b"], "p": [value, "us"]})
    keyed = KeyGenerator(spec("id", "p")).keys_of(batch)
    assert keyed.partition_path.to_pylist() == [None, "us"]
    problem = keyed.problem.to_pylist()
    assert problem[1] is None
    assert "partition path" in problem[0]
    assert keyed.record_key.to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "path"),
    [("../x", "..%2Fx"), ("/x", "%2Fx"), ("x/", "x%2F"), ("a//b", "a%2F%2Fb"), ("..", None), (".", None)],
)
def test_url_encoding_makes_slashes_harmless_but_not_dots(value: str, path: str | None) -> None:
    keyed = KeyGenerator(spec("id", "p", url_encode=True)).keys_of(pa.table({"id": ["a"], "p": [value]}))
    assert keyed.partition_path.to_pylist() == [path]
    assert (keyed.bad_rows == 0) == (path is not None)


def test_hive_style_makes_dots_harmless_but_not_slashes() -> None:
    batch = pa.table({"id": ["a"] * 4, "p": ["..", ".hoodie", "a/../../b", "a/b"]})
    keyed = KeyGenerator(spec("id", "p", hive_style=True)).keys_of(batch)
    assert keyed.partition_path.to_pylist() == ["p=..", "p=.hoodie", None, "p=a/b"]


@given(st.lists(st.tuples(any_texts, any_texts), min_size=1, max_size=10), st.booleans(), st.booleans())
def test_no_value_leaves_the_folder(values: list[tuple[str, str]], hive: bool, encode: bool) -> None:
    batch = pa.table({"id": ["k"] * len(values), "p": [v for v, _ in values], "q": [v for _, v in values]})
    keyed = KeyGenerator(spec("id", "p,q", hive_style=hive, url_encode=encode)).keys_of(batch)
    for path, problem in zip(keyed.partition_path.to_pylist(), keyed.problem.to_pylist(), strict=True):
        assert (path is None) == (problem is not None)
        assert path is None or (path != "" and partition_path_problem(path) is None)


def test_null_and_empty_partition_values() -> None:
    batch = pa.table({"id": ["a", "b"], "p": [None, ""], "q": ["x", None]})
    keyed = KeyGenerator(spec("id", "p,q", hive_style=True)).keys_of(batch)
    default = "__HIVE_DEFAULT_PARTITION__"
    assert keyed.partition_path.to_pylist() == [f"p={default}/q=x", f"p={default}/q={default}"]


def test_both_problems_name_the_key_first() -> None:
    keyed = KeyGenerator(spec("id", "p")).keys_of(
        pa.table({"id": [None], "p": [".."]}, pa.schema([("id", pa.string()), ("p", pa.string())]))
    )
    assert keyed.problem.to_pylist() == ["record key field 'id' is null"]


def test_missing_column_is_named_with_those_there() -> None:
    batch = pa.table({"a": [1], "s": [{"x": 1}]})
    for wanted in ("id", "s.y", "a.b", "t.x"):
        with pytest.raises(SchemaMismatchError, match=wanted) as caught:
            KeyGenerator(spec(wanted)).keys_of(batch)
        assert caught.value.hint == "its columns are a, s"


def test_nested_fields_and_columns_with_a_dot() -> None:
    batch = pa.table({"s": [{"x": {"y": "deep"}}, None], "s.z": ["flat", "flat"]})
    assert KeyGenerator(spec("s.x.y")).keys_of(batch).record_key.to_pylist() == ["deep", None]
    assert KeyGenerator(spec("s.z")).keys_of(batch).record_key.to_pylist() == ["flat", "flat"]
    assert spec("s.x.y,id", "s.q,p").columns == ("s", "id", "p")


@pytest.mark.parametrize("value", [b"bytes", [1], {"a": 1}])
def test_type_that_makes_no_key_is_refused(value: object) -> None:
    with pytest.raises(SchemaMismatchError, match="cannot be part of"):
        KeyGenerator(spec("id")).keys_of(pa.table({"id": [value]}))


def test_chunks_batches_dictionaries_and_empty_batches() -> None:
    table = pa.concat_tables([pa.table({"id": ["a"], "p": ["us"]}), pa.table({"id": ["b"], "p": ["eu"]})])
    generator = KeyGenerator(spec("id", "p"))
    assert generator.keys_of(table).record_key.to_pylist() == ["a", "b"]
    assert generator.keys_of(table.combine_chunks().to_batches()[0]).partition_path.to_pylist() == ["us", "eu"]
    coded = table.set_column(1, "p", table.column("p").dictionary_encode())
    assert generator.keys_of(coded).partition_path.to_pylist() == ["us", "eu"]
    empty = generator.keys_of(table.slice(0, 0))
    assert (len(empty.record_key), len(empty.partition_path), len(empty.problem)) == (0, 0, 0)
    assert (empty.record_key.type, empty.partition_path.type, empty.problem.type) == (pa.string(),) * 3


def test_large_strings_make_plain_keys() -> None:
    batch = pa.table({"id": pa.array(["a", "b"], pa.large_string()), "p": pa.array(["us", None], pa.large_string())})
    for parts in ("id", "id,p"):
        keyed = KeyGenerator(spec(parts, "p")).keys_of(batch)
        assert (keyed.record_key.type, keyed.partition_path.type) == (pa.string(), pa.string())


def test_large_strings_that_need_no_change_make_plain_partition_paths() -> None:
    batch = pa.table({"id": ["a", "b"], "p": pa.array(["us", "eu"], pa.large_string())})
    keyed = KeyGenerator(KeySpec(("id",), (("p", PartitionKind.SIMPLE),))).keys_of(batch)
    assert keyed.partition_path.type == pa.string()
    assert keyed.partition_path.to_pylist() == ["us", "eu"]


def test_time_partition_in_a_custom_generator() -> None:
    options = TimeOptions(TimeType.UNIX_TIMESTAMP, "yyyy/MM/dd")
    fields = (("p", SIMPLE), ("t", PartitionKind.TIMESTAMP))
    custom = KeySpec(("id",), fields, KeyGeneratorType.CUSTOM, hive_style=True, url_encode=True, time_options=options)
    keyed = KeyGenerator(custom).keys_of(pa.table({"id": ["a"], "p": ["u:s"], "t": [86_400]}))
    assert keyed.partition_path.to_pylist() == ["p=u%3As/t=1970%2F01%2F02"]
    text = KeyGenerator(custom).keys_of(pa.table({"id": ["a"], "p": ["us"], "t": ["1970"]}))
    assert text.partition_path.to_pylist() == [None]
    assert "takes numbers" in text.problem.to_pylist()[0]


BASE = {"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": "p"}


class TestFromProperties:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("org.apache.hudi.keygen.SimpleKeyGenerator", KeyGeneratorType.SIMPLE),
            ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGeneratorType.COMPLEX),
            ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", KeyGeneratorType.NON_PARTITION),
            ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", KeyGeneratorType.TIMESTAMP),
            ("org.apache.hudi.keygen.CustomKeyGenerator", KeyGeneratorType.CUSTOM),
        ],
    )
    def test_class_and_type(self, name: str, kind: KeyGeneratorType) -> None:
        times = {
            "hoodie.keygen.timebased.timestamp.type": "SCALAR",
            "hoodie.keygen.timebased.output.dateformat": "yyyy",
        }
        parts = {"hoodie.table.partition.fields": "p:SIMPLE"} if kind is KeyGeneratorType.CUSTOM else {}
        for setting in (
            {"hoodie.table.keygenerator.class": name},
            {"hoodie.table.keygenerator.type": kind.value},
            {"hoodie.table.keygenerator.type": f"{kind.value}_AVRO".lower()},
        ):
            found = KeySpec.from_properties(BASE | times | setting | parts)
            assert found.generator is kind
            assert found.partition_fields == {
                KeyGeneratorType.NON_PARTITION: (),
                KeyGeneratorType.TIMESTAMP: (("p", PartitionKind.TIMESTAMP),),
            }.get(kind, (("p", SIMPLE),))

    @pytest.mark.parametrize(
        ("keys", "parts", "kind"),
        [
            ("id", "p", KeyGeneratorType.SIMPLE), ("id", "", KeyGeneratorType.NON_PARTITION),
            ("id,k", "p", KeyGeneratorType.COMPLEX), ("id", "p,q", KeyGeneratorType.COMPLEX),
            ("id", "p:SIMPLE", KeyGeneratorType.CUSTOM),
        ],
    )  # fmt: skip
    def test_inferred_as_hudi_does(self, keys: str, parts: str, kind: KeyGeneratorType) -> None:
        properties = {"hoodie.table.recordkey.fields": keys, "hoodie.table.partition.fields": parts}
        assert KeySpec.from_properties(properties).generator is kind

    def test_flags_and_old_names(self) -> None:
        found = KeySpec.from_properties(
            {
                "hoodie.datasource.write.recordkey.field": " id , k ",
                "hoodie.datasource.write.partitionpath.field": "p",
                "hoodie.datasource.write.hive_style_partitioning": "true",
                "hoodie.datasource.write.partitionpath.urlencode": "TRUE",
            }
        )
        assert found.record_key_fields == ("id", "k")
        assert (found.hive_style, found.url_encode) == (True, True)

    def test_encoding_option(self) -> None:
        properties = BASE | {"hoodie.write.complex.keygen.new.encoding": "true"}
        assert KeySpec.from_properties(properties).complex_new_encoding is True
        assert KeySpec.from_properties(properties, complex_new_encoding=False).complex_new_encoding is False

    def test_custom_fields_without_kinds(self) -> None:
        custom = {"hoodie.table.keygenerator.type": "CUSTOM", "hoodie.table.partition.fields": "p,q"}
        assert KeySpec.from_properties(BASE | custom).partition_fields == (("p", SIMPLE), ("q", SIMPLE))
        for older in ("", "deltastreamer."):
            times = {f"hoodie.{older}keygen.timebased.timestamp.type": "SCALAR"}
            with pytest.raises(OptionError, match="no kind"):
                KeySpec.from_properties(BASE | custom | times)

    @pytest.mark.parametrize(
        "setting",
        [
            {"hoodie.table.keygenerator.class": "com.example.MyKeyGenerator"},
            {"hoodie.table.keygenerator.type": "USER_PROVIDED"},
            {"hoodie.datasource.write.slash.separated.date.partitioning": "true"},
            {"hoodie.table.recordkey.fields": ""},
        ],
    )
    def test_what_is_not_followed_is_refused_by_name(self, setting: dict[str, str]) -> None:
        with pytest.raises(TableUnsupportedError) as caught:
            KeySpec.from_properties(BASE | setting)
        assert caught.value.culprit
        assert caught.value.hint

    def test_time_options_are_needed(self) -> None:
        with pytest.raises(OptionError, match=r"timestamp\.type"):
            KeySpec.from_properties(BASE | {"hoodie.table.keygenerator.type": "TIMESTAMP"})
        with pytest.raises(OptionError, match="does not say how"):
            KeySpec(("id",), (("p", PartitionKind.TIMESTAMP),))
