"""The fixtures of the engine's tests, for what watches it."""

from tests.engine.conftest import app as app
