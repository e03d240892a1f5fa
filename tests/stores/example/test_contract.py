"""The example store keeps the whole contract."""

from mita.testing.contract import *  # noqa: F403
