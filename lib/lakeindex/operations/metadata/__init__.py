"""The metadata table of a table: built, dropped, shown, compared with the table."""
