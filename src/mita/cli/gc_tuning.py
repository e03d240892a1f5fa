"""Python's garbage collector, in a process that only runs jobs."""

import gc

YOUNG_OBJECTS = 5_000  # new objects after which it looks for cycles among them
PYTHONS = (700, 2_000)  # what versions of Python begin with: a few dozen small jobs


def spare_collector() -> None:
    """Exclude the objects that exist now from garbage collection: modules and tasks live as long as
    the worker, and scanning them again and again costs a tenth of a small job. If the program has
    changed the collector's settings, they are kept."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold()[0] in PYTHONS:  # the program has not changed it
        gc.set_threshold(YOUNG_OBJECTS)
