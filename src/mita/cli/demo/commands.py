"""The commands that the demo tells its viewer."""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import quote


def mita_command() -> str:
    """The command that starts this program again."""
    if shutil.which("mita"):
        return "mita"
    called = Path(sys.argv[0])
    return (
        os.path.relpath(called) if called.name == "mita" else f"{Path(sys.executable).name} -m mita"
    )


def url_of(path: Path) -> str:
    """The URL of the store in this file."""
    return f"sqlite:///{quote(str(path))}"
