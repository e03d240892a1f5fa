"""An app per store, whose jobs are encrypted."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mita import Keyring, Mita, Retry
from tests.e2e.stores import STORES

OLD, NEW = Keyring.new_key(), Keyring.new_key()
RING = Keyring("new", {"new": NEW, "old": OLD})
OLD_RING = Keyring("old", {"old": OLD})
NEW_RING = Keyring("new", {"new": NEW})

AppMaker = Callable[[Keyring | None], Mita]


def new_app(url: str, keyring: Keyring | None) -> Mita:
    """An app whose retries come soon."""
    return Mita(url, keyring=keyring, retry=Retry(max_retries=1, base=0.01, jitter="none"))


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with STORES[request.param](tmp_path) as url:
        yield url
