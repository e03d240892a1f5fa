"""The frozen nouns. They hold values and do nothing."""
