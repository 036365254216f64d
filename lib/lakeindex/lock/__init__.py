"""One writer at a table, and the lock that it holds: leases, kept alive by heartbeats, and the locks of Hudi."""
