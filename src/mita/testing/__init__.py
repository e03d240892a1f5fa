"""For tests of code that uses Mita: your tasks, a store of their own, and a clock that you move."""

from .clock import FakeClock as FakeClock
from .enqueued import EnqueuedJob as EnqueuedJob
from .laboratory import Lab as Lab
from .laboratory import lab as lab
