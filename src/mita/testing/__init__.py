"""For tests of code that uses Mita: your tasks, a store in memory, and a clock that you move."""

from .clock import FakeClock as FakeClock
from .laboratory import Lab as Lab
from .laboratory import lab as lab
