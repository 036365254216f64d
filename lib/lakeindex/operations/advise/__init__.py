"""``lakeindex advise``."""
