"""What keeps this store fast: shared enqueues, two connections under load, and watermarks."""
