"""Jobs inside a user's transaction: on the user's connection, visible when the user commits."""
