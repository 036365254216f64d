"""Columns and types: Avro schemas, what fits into what, widening."""
