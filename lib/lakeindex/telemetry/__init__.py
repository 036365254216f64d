"""What a run says to others when it starts and ends: metrics for Prometheus, lineage events for OpenLineage."""
