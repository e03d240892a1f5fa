"""Jobs that are written together."""
