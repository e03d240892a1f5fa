"""Tickets of ready jobs: pulled from their consumers, and made into claims."""
