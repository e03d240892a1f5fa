"""Every promise, over the other kinds of Redis."""

from mita.testing.contract import *  # noqa: F403
