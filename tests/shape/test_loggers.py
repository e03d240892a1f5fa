"""Every logger of Mita is named where its messages are made printable."""

import re
from pathlib import Path

import mita
from mita.ports.logs import LOGGERS


def test_every_logger_is_clean() -> None:
    sources = Path(mita.__path__[0]).rglob("*.py")
    named = {
        name
        for source in sources
        for name in re.findall(r'getLogger\("(mita\.[^"]*)"\)', source.read_text())
    }
    assert named <= set(LOGGERS), "name the new logger in ports/logs.py"
