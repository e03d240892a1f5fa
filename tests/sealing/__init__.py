"""Encrypted jobs."""
