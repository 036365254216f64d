"""Stage 4: exact match in the key columns."""
