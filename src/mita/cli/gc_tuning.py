"""Python's garbage collector, in a process that only runs jobs."""

import gc

YOUNG_OBJECTS = 5_000  # the collector runs after this many new objects
PYTHON_DEFAULTS = (700, 2_000)  # the default thresholds of the versions of Python


def freeze_startup_objects() -> None:
    """Exclude the objects that exist now from garbage collection: modules and tasks live as long as
    the worker, and scanning them again and again costs a tenth of a small job. If the program has
    changed the collector's settings, they are kept."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold()[0] in PYTHON_DEFAULTS:  # the program has not changed it
        gc.set_threshold(YOUNG_OBJECTS)
