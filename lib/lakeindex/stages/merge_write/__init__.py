"""Stage 5: tag, plan, write, publish."""
