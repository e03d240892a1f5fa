"""Text from jobs, made safe for a terminal, a log line and a JSON document. Pure, and the only place that does it."""

import json
import re

_BREAKS = re.compile(r"[ \t]*\n[ \t]*")


def printable(text: str) -> str:
    """One line without control, escape or direction characters: each is written as its escape, `\\x1b`.

    A line break becomes a space, so that no text can look like a line of its own.
    """
    return text if text.isprintable() else _escaped(_BREAKS.sub(" ", text))


def printable_lines(text: str) -> str:
    """The same for text of several lines, a traceback for instance. Each line after the first is indented, so that none can
    look like a log line or a message of Mita's own."""
    if text.isprintable():
        return text
    first, *others = text.split("\n")
    return "\n".join([_escaped(first), *(f"  {_escaped(line)}" for line in others)])


def printable_json(document: str) -> str:
    """The same document in other letters: JSON has an escape for each character, and what reads it gets the exact text."""
    if document.isprintable():
        return document
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)


def _escaped(line: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line.expandtabs(4))
