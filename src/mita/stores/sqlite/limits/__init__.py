"""What decides which job starts beside its priority: keys, rates, limited queues and groups."""
