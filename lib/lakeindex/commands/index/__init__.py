"""``lakeindex index``."""
