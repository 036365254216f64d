"""``lakeindex get``."""
