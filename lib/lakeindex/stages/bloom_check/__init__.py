"""Stage 3: probe each file's filter."""
