"""The timeline: instants, what their files hold, the archive, and the verdicts that decide what counts."""
