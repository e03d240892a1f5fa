"""Keys whose holder does not run, over every store."""

from .orphans import *  # noqa: F403
