"""The archived timeline: what is read of it, and how it is written, in either layout."""
