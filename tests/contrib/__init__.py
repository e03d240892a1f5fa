"""Mita inside web frameworks and their databases."""
