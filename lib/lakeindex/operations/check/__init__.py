"""``lakeindex check``."""
