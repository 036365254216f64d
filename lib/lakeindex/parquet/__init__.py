"""Parquet files as bytes: where things stand in a footer, and column chunks moved from file to file."""
