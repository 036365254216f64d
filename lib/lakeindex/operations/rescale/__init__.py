"""``lakeindex rescale``."""
