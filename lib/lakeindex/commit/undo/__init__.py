"""Taking instants back, and sweeping what they left."""
