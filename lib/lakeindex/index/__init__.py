"""The index types: one contract, one folder a kind."""
