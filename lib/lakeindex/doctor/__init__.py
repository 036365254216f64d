"""What is there, and what would stand in a run's way: ``lakeindex doctor``."""
