"""The kinds that store where keys are, and what they share: the contract and the change log."""
