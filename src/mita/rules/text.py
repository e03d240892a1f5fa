"""Makes text safe and short enough for every store."""

MOST_NOTE_CHARACTERS = 1000


def writable(text: str) -> str:
    """Returns the text with lone surrogates spelled out (a file name that is not UTF-8 has them):
    no store could write them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def note(text: object) -> str:
    """Returns a reason or a remark, cut to what a timeline line keeps."""
    return writable(str(text)[:MOST_NOTE_CHARACTERS])


CUT = "\n  …\n"


def shortened(text: str, size: int) -> str:
    """Returns as much of a text as fits into `size` bytes of UTF-8. Of an error these are its first
    line, which names it, and its last lines, which say where it happened."""
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
