"""python -m benchmarks.raw ENGINE ASK: times the raw loop, and prints its phases as JSON."""

import os
import sys
from collections.abc import Callable
from importlib import import_module

import msgspec

from .common import Ask, Phase

engine, ask = sys.argv[1], msgspec.json.decode(sys.argv[2], type=Ask)
if ask.core is not None:
    os.sched_setaffinity(0, {ask.core})
run: Callable[[Ask], dict[str, Phase]] = import_module(f"{__package__}.{engine}").run
print(msgspec.json.encode(run(ask)).decode())
