"""The metadata table: what Hudi keeps beside the data so that readers need not list or open files."""
