"""Makes text from jobs safe for a terminal, a log, a JSON document and a shell. Nothing else does
that."""

import json
import re
import shlex
from collections.abc import Iterable

_BREAKS = re.compile(r"[ \t]*\n[ \t]*")


def printable(text: str) -> str:
    """One line without control, escape or direction characters: each is written as its escape,
    `\\x1b`.

    A line break becomes a space, so that no text can look like a line of its own.
    """
    return text if text.isprintable() else _escaped(_BREAKS.sub(" ", text))


def printable_lines(text: str) -> str:
    """The same for text of several lines, a traceback for instance. Each line after the first is
    indented, so that none can look like a log line or a message of Mita's own."""
    if text.isprintable():
        return text
    first, *others = text.split("\n")
    return "\n".join([_escaped(first), *(f"  {_escaped(line)}" for line in others)])


def printable_json(document: str) -> str:
    """Return the same JSON document in printable characters: unprintable ones are written as JSON
    escapes, so a reader gets the exact text."""
    if document.isprintable():
        return document
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in document)


def shell_command(words: Iterable[str]) -> str:
    """As it can be pasted into a shell. A word that is not printable is quoted as bash and zsh read
    it, `$'\\u001b'`."""
    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_quoted, word))}'"
        for word in words
    )


def _quoted(c: str) -> str:
    if c in "\\'":
        return f"\\{c}"
    return c if c.isprintable() else f"\\U{ord(c):08x}"


def _escaped(line: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line.expandtabs(4))
