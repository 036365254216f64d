"""Hudi's metadata table kept true to what is committed, cleaned and rolled back: ``keeping`` is the door."""
