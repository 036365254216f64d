"""A table of files that lie somewhere: what they are, whether their keys fit, and the load of them."""
