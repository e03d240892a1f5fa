"""Every promise, on a real server."""

from mita.testing.contract import *  # noqa: F403
