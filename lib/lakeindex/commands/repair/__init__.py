"""Mend what another writer has left in a table."""
