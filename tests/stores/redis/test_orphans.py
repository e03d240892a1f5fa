"""Keys whose holder does not run, over the other kinds of Redis."""

from tests.contract.orphans import *  # noqa: F403
