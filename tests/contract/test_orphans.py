"""Keys whose holder does not run, over every store with a fake clock."""

from .orphans import *  # noqa: F403
