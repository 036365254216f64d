"""HBASE."""
