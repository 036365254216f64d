"""INMEMORY."""
