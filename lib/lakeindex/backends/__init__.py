"""What index types store, and the registry of all of them."""
