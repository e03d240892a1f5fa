"""Keys whose holder does not run, over a real server."""

from tests.contract.orphans import *  # noqa: F403
