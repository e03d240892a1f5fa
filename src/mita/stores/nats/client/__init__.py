"""What this store does with the private parts of nats-py: reading, writing and reconnecting."""
