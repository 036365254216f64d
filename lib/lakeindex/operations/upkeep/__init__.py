"""``lakeindex create``, ``clean``, ``maintain``, ``rollback`` and ``index migrate``."""
