"""The index types: one contract, a module a kind."""
