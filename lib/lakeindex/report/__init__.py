"""The report of a run: what each stage let through and what it cost, as JSON, as a page and in a terminal."""
