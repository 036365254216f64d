"""The commit protocol: how one writer among many makes files part of the table. See ``docs/commit-protocol.md``."""
