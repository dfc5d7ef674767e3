"""The message store: append-only segments of records that are never re-encoded."""
