"""``lakeindex inspect`` and ``history``, and a table in a notebook."""
