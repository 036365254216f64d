"""The table's lock: leases, kept alive by heartbeats."""
