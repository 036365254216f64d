"""SQLITE: the example of docs/adding-an-index.md, a stored index in one SQLite database a generation."""
