"""What the form's input may name: dates and names of the run, and nothing that leads to a secret or to code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from lakeindex.airflow.dag_plan import FIELDS, rendered
from lakeindex.errors import InputError, UsageError

SECRET = "a-password-of-prod"


class Conn:
    """Airflow's accessor: whatever is asked for, a connection."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(password=SECRET, get_uri=lambda: f"s3://{SECRET}")


def context() -> dict[str, Any]:
    day = datetime(2026, 11, 20, tzinfo=UTC)
    run = SimpleNamespace(
        run_id="manual__1",
        dag_id="upsert_trips",
        run_type="manual",
        conf={"day": "d1", "long": "x" * 20_000, "most": "y" * 6_000},
        logical_date=day,
        secret=SECRET,
    )
    return {
        "logical_date": day,
        "data_interval_start": day,
        "data_interval_end": day + timedelta(days=1),
        "ds": "2026-11-20",
        "ds_nodash": "20261120",
        "ts": "2026-11-20T00:00:00+00:00",
        "run_id": "manual__1",
        "dag_run": run,
        "conn": Conn(),
        "var": SimpleNamespace(value=SimpleNamespace(token=SECRET), json={}),
        "macros": SimpleNamespace(os=SECRET, datetime=datetime),
        "params": {"secret": SECRET},
        "task": SimpleNamespace(render_template=lambda text, _: SECRET, password=SECRET),
        "ti": SimpleNamespace(task=SECRET),
        "conf": {"core": SECRET},
        "outlet_events": SECRET,
    }


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("in/{{ ds }}.csv", "in/2026-11-20.csv"),
        ("in/{{ data_interval_start | ds }}/*.parquet", "in/2026-11-20/*.parquet"),
        ("in/{{ data_interval_end | ds_nodash }}", "in/20261121"),
        ("{{ logical_date.strftime('%Y/%m') }}", "2026/11"),
        ("{{ data_interval_start.year }}-{{ '%02d' | format(data_interval_start.month) }}", "2026-11"),
        ("{{ dag_run.run_id }}/{{ run_id }}/{{ dag_id }}", "manual__1/manual__1/upsert_trips"),
        ("{{ dag_run.conf.day | upper }}", "D1"),
        ("{% if dag_run.run_type == 'manual' %}by-hand{% else %}daily{% endif %}", "by-hand"),
        ("{{ ts | replace(':', '') }}", "2026-11-20T000000+0000"),
        ("{{ logical_date | ts_nodash }} {{ logical_date | ts }}", "20261120T000000 2026-11-20T00:00:00+00:00"),
        ("{{ ds.replace('-', '/') }}/{{ dag_run.conf.get('day') }}", "2026/11/20/d1"),
        ("{{ 'in/' + ds_nodash }}", "in/20261120"),
        ("{{ data_interval_start.replace(day=1) | ds }}", "2026-11-01"),
        ("{{ data_interval_start.isoformat(timespec='hours') }}", "2026-11-20T00+00:00"),
        ("{{ ds.split('-', maxsplit=1)[0] }}", "2026"),
        ("{{ 'a.b.c'.replace('.', '/', 1) }} {{ 'a.b' | replace('.', '/', 1) }}", "a/b.c a/b"),
        ("plain.csv", "plain.csv"),
    ],
)
def test_fields_of_the_run_are_offered(template: str, text: str) -> None:
    assert rendered([template, "  "], context()) == [text]


@pytest.mark.parametrize(
    "template",
    [
        "{{ conn.prod.password }}",
        "{{ conn['prod'].get_uri() }}",
        "{{ var.value.token }}",
        "{{ var.json.token }}",
        "{{ macros.os }}",
        "{{ task.password }}",
        "{{ ti.task }}",
        "{{ params.secret }}",
        "{{ conf.core }}",
        "{{ outlet_events }}",
        "{{ dag_run.secret }}",
        "{{ dag_run.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ ds | attr('__class__') }}",
        "{{ logical_date.__reduce__() }}",
        "{{ logical_date.strftime.__globals__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.environ }}",
        "{{ self._TemplateReference__context }}",
        "{{ '{0.__class__}'.format(ds) }}",
        "{{ namespace }}",
        "{% for x in range(1000000) %}{{ x }}{% endfor %}",
        "{% import 'x' as y %}",
        "{% include 'x' %}",
        "{% macro f() %}{% endmacro %}",
        "{{ 'x' * 10000000000 }}",
        "{{ '%10000000000d' % 1 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ nothing }}",
        "{{ ds",
        "{{ ds | nofilter }}",
        "{{ 1 / 0 }}",
        "{{ '{}'.format() }}",
        "{{ '{day}'.format() }}",
        "x" * 20_000,
        "{{ 'x'.ljust(10000000000) }}",
        "{{ 'x' | center(10000000000) }}",
        "{{ 'x'.zfill(10000000000) }}",
        "{{ '%010000000000d' | format(1) }}",
        "{{ '%*d' | format(10000000000, 1) }}",
        "{{ logical_date.strftime('%10000000000Y') }}",
        "{% set a = 'xxxxxxxxxx' %}{{ a }}",
        "{{ ds | replace('0', '" + "x" * 200 + "') }}",
        "{{ ds.replace('', '" + "x" * 100 + "') | replace('', '" + "x" * 100 + "') }}",
        "{{ 'x' | indent(10000000000) }}",
        "{{ dag_run.conf.long }}",
        "{{ (dag_run.conf.most ~ dag_run.conf.most) | replace('y', '" + "b" * 100 + "') }}",
        "{{ (dag_run.conf.most ~ dag_run.conf.most).split('y') }}",
        "{{ (dag_run.conf | string) | replace('y', '" + "b" * 100 + "') }}",
        "{{ logical_date.strftime(format='%10000000000Y') }}",
        "{{ logical_date.replace(day=99) }}",
    ],
)
def test_nothing_else_is(template: str) -> None:
    with pytest.raises(UsageError) as refused:
        rendered([template], context())
    assert SECRET not in str(refused.value)
    assert all(field in str(refused.value) for field in FIELDS)


def test_a_name_that_is_not_offered_is_refused_also_where_it_is_not_reached() -> None:
    with pytest.raises(UsageError, match="names 'conn'"):
        rendered(["{% if false %}{{ conn.prod.password }}{% endif %}"], context())


@pytest.mark.parametrize("name", ["data_interval_start", "data_interval_end", "ds", "logical_date"])
def test_a_run_without_an_interval_says_so(name: str) -> None:
    by_hand = {**context(), **dict.fromkeys(("logical_date", "data_interval_start", "data_interval_end", "ds"))}
    with pytest.raises(UsageError, match="and this run has none"):
        rendered([f"in/{{{{ {name} }}}}"], by_hand)


def test_it_is_what_plans_a_run(tmp_path: Any) -> None:
    from lakeindex.airflow.dag_plan import plan_run
    from lakeindex.airflow.tables import TableConf

    (tmp_path / "2026-11-20.csv").write_text("id\n")
    table = TableConf("t", "t", str(tmp_path / "t"), str(tmp_path / "runs"), inputs=(f"{tmp_path}/{{{{ ds }}}}.csv",))
    given = {**context(), "params": {"input": "{{ conn.prod.password }}"}}
    with pytest.raises(UsageError, match=r"names 'conn'.*templates see logical_date"):
        plan_run(table, given, batch_id="b", may_skip=False)
    planned = plan_run(table, {**context(), "params": {}}, batch_id="b", may_skip=False)
    assert planned.inputs == (f"{tmp_path}/2026-11-20.csv",)


def test_why_it_is_refused_is_said_before_anything_is_made() -> None:
    """A width of three digits is too many, however short the text would be; what is no JSON is not there."""
    for template, why in {
        "{{ '%999d' | format(1) }}": "too wide a format",
        "{{ logical_date.strftime('%0999d') }}": "too wide a format",
        "{% for one in 'ab' %}{{ one }}{% endfor %}": "has a for in it",
        "{% set one = 1 %}{{ one }}": "has a assign in it",
        "{{ dag_run.conf.thing }}": "cannot be worked out: UndefinedError",
    }.items():
        given = context()
        given["dag_run"].conf = {"thing": object()}
        with pytest.raises(UsageError, match=why):
            rendered([template], given)
    assert rendered(["{{ '%99d' | format(1) }}"], context()) == [f"{1:99d}"]


def test_what_a_template_renders_to_is_a_place_as_any_other(tmp_path: Any) -> None:
    """A path or URL as a whole, too; what is relative is so to the project's folder, in the form and in a table's file."""
    from lakeindex.airflow.dag_plan import plan_run
    from lakeindex.airflow.tables import TableConf

    table = TableConf("t", "t", str(tmp_path / "t"), str(tmp_path / "runs"))
    for text, place in {
        "{{ dag_run.conf.day }}/x": f"{tmp_path}/d1/x",
        "in/../{{ ds }}.csv": f"{tmp_path}/2026-11-20.csv",
        "{{ '/abs' }}/{{ ds }}": "/abs/2026-11-20",
        "file:///{{ 'abs/a%20b' }}": "/abs/a b",
    }.items():
        for given in ({"params": {"input": text}}, {"params": {}}):
            asked = {**context(), **given}
            with pytest.raises(InputError, match=f"no input at {place}"):
                plan_run(replace(table, inputs=(text,)), asked, batch_id="b", may_skip=False, root=str(tmp_path))
    asked = {**context(), "params": {"input": "table:day_{{ ds_nodash }}"}}
    assert plan_run(table, asked, batch_id="b", may_skip=False, root="/").inputs == ("table:day_20261120",)
