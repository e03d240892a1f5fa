"""Every promise, over every store."""

import re
from pathlib import Path

from mita.testing import contract
from mita.testing.contract import *  # noqa: F403


def test_no_promise_is_left_out() -> None:
    """A module that nobody lists would be a promise that nobody keeps, and of two tests of one name
    one would not run."""
    texts = [file.read_text(encoding="utf-8") for file in Path(contract.__path__[0]).glob("*.py")]
    written = [
        name for text in texts for name in re.findall(r"^async def (test_\w+)", text, re.MULTILINE)
    ]
    assert sorted(written) == sorted(contract.TESTS)
