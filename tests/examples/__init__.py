"""The applications in `examples`, run as their pages say."""
