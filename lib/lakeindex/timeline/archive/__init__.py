"""What is read of the archived timeline."""
