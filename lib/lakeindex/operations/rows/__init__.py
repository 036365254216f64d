"""The rows of a table: got by key, scanned, read into files, of one snapshot each."""
