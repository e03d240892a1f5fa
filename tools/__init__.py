"""What makes parts of the docs."""
