"""What the tests of the web frameworks ask an app."""

from mita import Mita


def state(app: Mita, id: str) -> str:
    """The state of this job, which must be there."""
    found = app.get_sync(id)
    assert found is not None
    return found.state
