"""Python's collector of cycles, in a process that does nothing but run jobs."""

import gc

YOUNG_OBJECTS = 5_000  # new objects after which it looks for cycles among them
PYTHONS = (700, 2_000)  # what versions of Python begin with: a few dozen small jobs


def spare_collector() -> None:
    """Leave what is there by now to stay: modules and tasks live as long as the worker, and walking
    through them again and again is a tenth of what a small job costs. Whoever has set the collector
    up in his own way keeps that."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold()[0] in PYTHONS:  # nobody has chosen another
        gc.set_threshold(YOUNG_OBJECTS)
