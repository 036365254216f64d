"""What Python users call: open and create tables, write, read, look, maintain."""
