"""``lakeindex advise``: which index suits a table and a batch."""

from __future__ import annotations

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, say, table_argument
from lakeindex.options.parse import parse_options


@click.command()
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option(
    "--checkpoints", metavar="DIR", help="Root of the run folders; default: TABLE.lakeindex beside the table."
)
@pairs_option
@json_option
def advise(
    table: str, inputs: tuple[str, ...], *, checkpoints: str | None, options: tuple[str, ...], as_json: bool
) -> None:
    """Estimate what each index type would cost for batches like INPUT, and recommend one. Changes nothing.

    A sample of the batch's keys and of the table's footers is read. INPUT: as for upsert.
    """
    pairs = parse_pairs(options)
    parse_options(pairs)
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).advise(list(inputs), options=pairs, checkpoints=checkpoints)
    say(found, as_json=as_json)
