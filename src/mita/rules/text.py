"""Text that somebody wrote, as every store can keep it."""

LONGEST_NOTE = 1000


def writable(text: str) -> str:
    """Half characters (a file name that is not UTF-8 has them) are spelled out: no store could write them down."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def note(text: object) -> str:
    """A reason or a remark: as much of it as a timeline has room for."""
    return writable(str(text)[:LONGEST_NOTE])
