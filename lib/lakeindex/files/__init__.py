"""The base files of a table: which there are, what their footers say, their key columns."""
