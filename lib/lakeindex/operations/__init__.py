"""What users do with a table beside writing to it, one folder a command."""
