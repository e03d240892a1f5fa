"""Testing code that uses Mita: your tasks, a store in memory, and a clock that you move."""

from .clock import FakeClock as FakeClock
from .lab import Lab as Lab
from .lab import lab as lab
