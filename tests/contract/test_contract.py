"""Every promise, over every store."""

from mita.testing.contract import *  # noqa: F403
