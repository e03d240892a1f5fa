"""Figures: what Mita reaches on each store, with the engine's raw loop of the same run beside it.
`python -m benchmarks`."""
