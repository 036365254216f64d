"""``lakeindex read``."""
