"""Mita: a durable job queue in which when a job runs is first-class."""
