"""What the engine and the client need from outside: stores, clocks, ids, and helpers for them."""
