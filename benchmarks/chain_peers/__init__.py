"""One script for each queue that `benchmarks.chains` measures. Each is run by the interpreter of
that queue's own environment, and imports nothing of this repository but `done`."""
