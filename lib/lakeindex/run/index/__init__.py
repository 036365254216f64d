"""The index of one run: asked in stage 2, told of the commit in stage 5."""
