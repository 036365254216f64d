"""Table services on the timeline, under the same arbiter as commits: rollback, clean, archive."""
