"""``lakeindex demo``: orders of a shop, loaded, changed and compared with what is known of them."""
