"""What a table holds, for a person: lines that a shell's tools can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from lakeindex.report.text import human_bytes

if TYPE_CHECKING:
    from lakeindex.commands.look.live_files import (
        TableColumns,
        TableCount,
        TableEntries,
        TableFiles,
        TablePartitions,
    )


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def show_columns(console: Console, found: TableColumns) -> None:
    """A line a column."""
    for column in found.columns:
        _line(console, f"{column.name} {column.type}{'' if column.nullable else ' not null'}")


def show_entries(console: Console, found: TableEntries) -> None:
    """A line a property."""
    for name, value in sorted(found.properties.items()):
        _line(console, f"{name}={value}")


def show_count(console: Console, found: TableCount) -> None:
    """The number alone."""
    _line(console, str(found.rows))


def show_files(console: Console, found: TableFiles) -> None:
    """A line a file."""
    for file in found.files:
        _line(console, f"{file.path}  {file.rows:,} rows  {human_bytes(file.bytes)}")


def show_partitions(console: Console, found: TablePartitions) -> None:
    """A line a partition."""
    for one in found.partitions:
        _line(console, f"{one.path or '(the table)'}  {one.files:,} files  {one.rows:,} rows  {human_bytes(one.bytes)}")
