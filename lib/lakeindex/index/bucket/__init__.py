"""BUCKET."""
