"""The record index and the bloom filters in the metadata table."""
