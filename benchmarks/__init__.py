"""Benchmarks: the speed of Mita on each store, beside the raw loop of the same run.
Start them with `python -m benchmarks`."""
