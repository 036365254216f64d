"""What all stored indexes share: the change log, and which files it covers."""
