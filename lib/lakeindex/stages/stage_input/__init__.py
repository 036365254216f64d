"""Stage 1: key the batch, set bad rows aside, combine duplicates, sort."""
