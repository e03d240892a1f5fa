"""Every subject and name we own, made in one place.

The subject is where a message stands. `j.h` is a job's home, `j.r` the line of the ready ones (one
consumer for each queue and priority), `b` the line at a resource key; the others are small records.
A home has a dash where a ticket has its priority: so one pattern covers all there can be of an id,
and the server itself can refuse a second job of that id. What people named is never a raw token:
names are escaped, keys are hashed, so no dot, star or blank of theirs is ever read as one of ours.
"""

import re
from hashlib import sha256

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"=([0-9a-f]{2})")
NAMELESS = "unreadable:"  # and the hash of its key: the name of a repeat whose key cannot be read
PREFIX, ROOT = "mita_", "mita"  # of every stream, and of every subject
CLASSES = "jbkqugewcml"


def token(name: str) -> str:
    """A name as one token: what is not a letter, a digit, `_` or `-` becomes `=` and its bytes in
    hexadecimal."""
    if (name.isascii() and name.isalnum()) or _PLAIN.fullmatch(name):
        return name
    return (
        "".join(
            char if _PLAIN.fullmatch(char) else "".join(f"={byte:02x}" for byte in char.encode())
            for char in name
        )
        or "="
    )


def name(made: str) -> str:
    """The name that became this token."""
    if "=" not in made:
        return made
    return (
        _ESCAPED.sub(lambda found: chr(int(found[1], 16)), made.removesuffix("="))
        .encode("latin-1")
        .decode()
    )


def hashed(key: str) -> str:
    """A key of any text and length as one token; the text itself is inside the record."""
    return sha256(key.encode()).hexdigest()[:32]


class Subjects:
    """What stands where, for one namespace."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.stream = f"{PREFIX}{namespace}"
        self.root = f"{ROOT}.{namespace}"
        self.stored = [f"{self.root}.{letter}.>" for letter in CLASSES]
        self.wake = f"{self.root}.wake"
        self.bell = f"{self.root}.bell"
        self.ears = f"{self.root}.ears"
        self.anchor = f"{self.root}.m.anchor"
        self._home = f"{self.root}.j.h"
        self._ready = f"{self.root}.j.r"
        self._homes: dict[str, str] = {}  # by queue: asked for once for every job

    def home(self, queue: str, id: str) -> str:
        prefix = self._homes.get(queue)
        if prefix is None:
            prefix = self._homes[queue] = f"{self._home}.{token(queue)}.-."
        return prefix + token(id)

    def homes(self, queue: str | None = None) -> str:
        return f"{self._home}.{'*' if queue is None else token(queue)}.-.*"

    def ready(self, queue: str, priority: int, id: str) -> str:
        return f"{self._ready}.{token(queue)}.{priority}.{token(id)}"

    def line(self, queue: str, priority: int) -> str:
        return f"{self._ready}.{token(queue)}.{priority}.*"

    def lines(self, queue: str) -> str:
        return f"{self._ready}.{token(queue)}.*.*"

    def jobs(self, queue: str | None = None) -> str:
        """All homes and tickets."""
        return f"{self.root}.j.*.{'*' if queue is None else token(queue)}.*.*"

    def anywhere(self, id: str) -> str:
        """Where a job of this id may stand, whatever its queue."""
        return f"{self.root}.j.*.*.*.{token(id)}"

    def is_home(self, subject: str) -> bool:
        return subject.startswith(self._home)

    def is_ticket(self, subject: str) -> bool:
        return subject.startswith(self._ready)

    def consumer(self, queue: str, priority: int) -> str:
        return f"r-{token(queue)}-{priority}"

    def bells(self, queue: str) -> str:
        return f"{self.bell}.{token(queue)}.>"

    def told(self, queue: str | None) -> str:
        return f"{self.root}.told.{'*' if queue is None else token(queue)}"

    def waiter(self, queue: str, key: str, priority: int, id: str) -> str:
        return f"{self.root}.b.{token(queue)}.{hashed(key)}.{priority}.{token(id)}"

    def waiters(self, queue: str, key: str, priority: int | None = None) -> str:
        return (
            f"{self.root}.b.{token(queue)}.{hashed(key)}.{'*' if priority is None else priority}.*"
        )

    def key(self, queue: str, key: str) -> str:
        return f"{self.root}.k.{token(queue)}.{hashed(key)}"

    def queue(self, queue: str) -> str:
        return f"{self.root}.q.{token(queue)}"

    def unique(self, queue: str, key: str) -> str:
        return f"{self.root}.u.{token(queue)}.{hashed(key)}"

    def memo(self, name: str) -> str:
        return f"{self.root}.g.{hashed(name)}"

    def repeat(self, key: str) -> str:
        """One whose key cannot be read goes by the hash of it."""
        named = key.removeprefix(NAMELESS) if key.startswith(NAMELESS) else hashed(key)
        return f"{self.root}.e.{named}"

    def lock(self, name: str) -> str:
        return f"{self.root}.l.{hashed(name)}"

    def worker(self, id: str) -> str:
        return f"{self.root}.w.{token(id)}"

    def claimed(self, batch: str) -> str:
        return f"{self.root}.c.{batch}"

    def all(self, letter: str) -> str:
        return f"{self.root}.{letter}.>"
