"""Conducts a run: begin, the five stages, publish, and again after a conflict. The stages do not know each other."""
