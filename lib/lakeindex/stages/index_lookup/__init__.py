"""Stage 2: which files can hold which keys."""
