"""Limits beyond one resource key: several keys, rates, limited queues and fair groups."""
