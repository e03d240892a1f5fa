"""Text that somebody wrote, as every store can keep it."""

MOST_NOTE_CHARACTERS = 1000


def writable(text: str) -> str:
    """Half characters (a file name that is not UTF-8 has them) are spelled out: no store could
    write them down."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def note(text: object) -> str:
    """A reason or a remark: as much of it as a timeline has room for."""
    return writable(str(text)[:MOST_NOTE_CHARACTERS])


CUT = "\n  …\n"


def shortened(text: str, size: int) -> str:
    """As much of a text as UTF-8 writes in `size` bytes. Of an error that is its first line, which
    names it, and the last lines, which say where it happened."""
    whole = text.encode()
    if len(whole) <= size:
        return text
    head, _, rest = text.partition("\n")
    first = _first_bytes(head, size if not rest else size // 2)
    left = size - len(first.encode()) - len(CUT.encode())
    if not rest or left <= 0:
        return _first_bytes(head, size - len("…".encode())) + "…"
    return first + CUT + rest.encode()[-left:].decode(errors="ignore")


def _first_bytes(text: str, size: int) -> str:
    return text.encode()[: max(size, 0)].decode(errors="ignore")
