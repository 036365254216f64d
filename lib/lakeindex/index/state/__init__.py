"""STATE."""
