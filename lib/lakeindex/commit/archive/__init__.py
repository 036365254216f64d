"""Writing the archived timeline: the port, and its adapters for either timeline layout."""
