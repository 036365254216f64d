"""One run: what it was told, its folder and checkpoints, what its tasks need to know, its summary."""
