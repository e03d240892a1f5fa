"""All subjects and names of one namespace.

The subject of a message says what the message is: `RecordKind` lists the kinds, and
`docs/inside/nats.md` draws them. A job's record has a dash where a ticket has its slot. So one
pattern matches everything stored for an id, and the server itself can refuse a second job with that
id.

Names chosen by users are never used as they are: queue names and ids are escaped, keys are hashed.
So no dot, star or blank in them can be read as part of a subject."""

import re
from enum import StrEnum
from hashlib import sha256

from mita.model.time import Moment, Wait

from .slots import WAKE_SLOT

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_SPECIAL = re.compile(r"[^A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"=([0-9a-f]{2})")
# The key shown for a repeat whose record cannot be read: this prefix and the hash of its real key.
UNREADABLE_KEY = "unreadable:"
STREAM_PREFIX, SUBJECT_ROOT = "mita_", "mita"  # of every stream, and of every subject
HASH_DIGITS = 32


class RecordKind(StrEnum):
    """What a stored message is: the letter in its subject."""

    JOB = "j"
    WAITER = "b"  # a blocked job at its resource key
    RESOURCE_KEY = "k"
    QUEUE = "q"
    UNIQUE_KEY = "u"
    SHARED_ONCE = "g"  # a `once` value for all jobs
    REPEAT = "e"
    WORKER = "w"
    CLAIM_LIST = "c"
    ANCHOR = "m"  # one message that is always there, and the tally
    LOCK = "l"
    WAKE = "t"  # when the next job at a rate may be woken
    QUEUE_USE = "n"  # the limit of a queue, and what runs in it
    LANES = "f"  # the lanes of a queue's groups of `fair`
    AUDIT = "a"  # entries of the audit log
    HISTORY = "y"  # how many runs ended in a minute or an hour


# Kinds that are not in streams of older schemas, and the first schema that has them.
KINDS_SINCE = {
    RecordKind.WAKE: "4",
    RecordKind.QUEUE_USE: "4",
    RecordKind.LANES: "4",
    RecordKind.AUDIT: "5",
    RecordKind.HISTORY: "5",
}
AUDIT_BUCKET_DIGITS = 6  # of an entry's id, in its subject: those of about five hours share one


def token(name: str) -> str:
    """Returns a name as one token of a subject: what is not a letter, a digit, `_` or `-` becomes
    `=` and its bytes in hexadecimal."""
    if (name.isascii() and name.isalnum()) or _PLAIN.fullmatch(name):
        return name
    return _SPECIAL.sub(_escaped, name) or "="


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"={byte:02x}" for byte in found[0].encode())


def name(made: str) -> str:
    """Returns the name from which `token` made this."""
    if "=" not in made:
        return made
    return (
        _ESCAPED.sub(lambda found: chr(int(found[1], 16)), made.removesuffix("="))
        .encode("latin-1")
        .decode()
    )


def hashed(key: str) -> str:
    """Returns a key of any length as one token; its text is inside the record."""
    return sha256(key.encode()).hexdigest()[:HASH_DIGITS]


class Subjects:
    """The subjects of one namespace. Methods in the plural return patterns with wildcards."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.stream = f"{STREAM_PREFIX}{namespace}"
        self.root = f"{SUBJECT_ROOT}.{namespace}"
        self.stored = [self.all(kind) for kind in RecordKind]
        # Not stored: plain messages.
        self.wake = f"{self.root}.wake"  # wake-up topics, sent by stores
        self.planned = f"{self.root}.planned"  # wake tickets that are due soon, sent by stores
        self.republished = f"{self.root}.tickets"  # a copy of each new ticket, sent by the server
        self.subscribers = f"{self.root}.subscribers"  # the question whether there are any
        self.anchor = f"{self.root}.{RecordKind.ANCHOR}.anchor"
        self.tally = f"{self.root}.{RecordKind.ANCHOR}.tally"  # counts of jobs (`tally`)
        self._record = f"{self.root}.{RecordKind.JOB}.h"
        self._ticket = f"{self.root}.{RecordKind.JOB}.r"
        self._near_wake = f"{self.root}.{RecordKind.JOB}.w"
        self._record_prefixes: dict[str, str] = {}  # by queue; needed once for every job

    def record(self, queue: str, id: str) -> str:
        """The record of a job."""
        prefix = self._record_prefixes.get(queue)
        if prefix is None:
            prefix = self._record_prefixes[queue] = f"{self._record}.{token(queue)}.-."
        return prefix + token(id)

    def records(self, queue: str | None = None) -> str:
        """The records of all jobs of a queue, or of all queues."""
        return f"{self._record}.{'*' if queue is None else token(queue)}.-.*"

    def ticket(self, queue: str, slot: int, id: str) -> str:
        """The ticket of a ready job."""
        return f"{self._ticket}.{token(queue)}.{slot}.{token(id)}"

    def tickets(self, queue: str, slot: int | None = None) -> str:
        """The tickets of a queue, of one slot or of all."""
        return f"{self._ticket}.{token(queue)}.{'*' if slot is None else slot}.*"

    def all_tickets(self) -> str:
        """The tickets of all queues."""
        return f"{self._ticket}.>"

    def jobs(self, queue: str | None = None) -> str:
        """All records and tickets of a queue, or of all queues."""
        return f"{self.root}.{RecordKind.JOB}.*.{'*' if queue is None else token(queue)}.*.*"

    def any_of_id(self, id: str) -> str:
        """The record and all tickets of an id, in any queue."""
        return f"{self.root}.{RecordKind.JOB}.*.*.*.{token(id)}"

    def is_record(self, subject: str) -> bool:
        """True for the subject of a job's record."""
        return subject.startswith(self._record)

    def is_ticket(self, subject: str) -> bool:
        """True for the subject of a ticket."""
        return subject.startswith(self._ticket)

    def consumer(self, queue: str, slot: int) -> str:
        """The name of the consumer of one slot of a queue."""
        return f"r-{token(queue)}-{slot}"

    def republished_tickets(self, queue: str) -> str:
        """Copies of the new tickets of a queue."""
        return f"{self.republished}.{token(queue)}.>"

    def events(self, queue: str | None) -> str:
        """Events of one queue, or of all."""
        return f"{self.root}.events.{'*' if queue is None else token(queue)}"

    def waiter(self, queue: str, key: str, priority: int, id: str) -> str:
        """A blocked job at its resource key."""
        return f"{self._keyed(RecordKind.WAITER, queue, key)}.{priority}.{token(id)}"

    def waiters(self, queue: str, key: str, priority: int | None = None) -> str:
        """The blocked jobs at a resource key, of one priority or of all."""
        any_priority = "*" if priority is None else priority
        return f"{self._keyed(RecordKind.WAITER, queue, key)}.{any_priority}.*"

    def resource_key(self, queue: str, key: str) -> str:
        """The record of a resource key."""
        return self._keyed(RecordKind.RESOURCE_KEY, queue, key)

    def scheduled_wake(self, queue: str, key: str) -> str:
        """The wake ticket of a key, while the server waits for its time."""
        return self._keyed(RecordKind.WAKE, queue, key)

    def scheduled_wakes(self, queue: str) -> str:
        """The wake tickets of a queue for which the server waits."""
        return f"{self.root}.{RecordKind.WAKE}.{token(queue)}.*"

    def wake_ticket(self, queue: str, key: str) -> str:
        """The wake ticket of a key, ready to be delivered, if the server makes it at its time."""
        return f"{self._ticket}.{token(queue)}.{WAKE_SLOT}.{hashed(key)}"

    def near_wake_ticket(self, queue: str, key: str) -> str:
        """The wake ticket of a key whose time is near. The server does not notify of it."""
        return f"{self._near_wake}.{token(queue)}.{WAKE_SLOT}.{hashed(key)}"

    def delivered_by(self, queue: str, slot: int) -> list[str]:
        """The tickets that the consumer of one slot of a queue delivers."""
        near = [f"{self._near_wake}.{token(queue)}.{slot}.*"] if slot == WAKE_SLOT else []
        return [self.tickets(queue, slot), *near]

    def queue(self, queue: str) -> str:
        """The record of a queue."""
        return f"{self.root}.{RecordKind.QUEUE}.{token(queue)}"

    def queue_use(self, queue: str) -> str:
        """The limit of a queue, and what runs in it."""
        return f"{self.root}.{RecordKind.QUEUE_USE}.{token(queue)}"

    def lanes(self, queue: str, priority: int) -> str:
        """The lanes of the groups in one priority of a queue."""
        return f"{self.root}.{RecordKind.LANES}.{token(queue)}.{priority}"

    def unique(self, queue: str, key: str) -> str:
        """The record of a unique key."""
        return self._keyed(RecordKind.UNIQUE_KEY, queue, key)

    def shared_once(self, name: str) -> str:
        """A `once` value that all jobs share."""
        return f"{self.root}.{RecordKind.SHARED_ONCE}.{hashed(name)}"

    def repeat(self, key: str) -> str:
        """The record of a repeat. An unreadable one is named by the hash of its key."""
        made = key.removeprefix(UNREADABLE_KEY) if key.startswith(UNREADABLE_KEY) else hashed(key)
        return f"{self.root}.{RecordKind.REPEAT}.{made}"

    def lock(self, name: str) -> str:
        """The record of a lock."""
        return f"{self.root}.{RecordKind.LOCK}.{hashed(name)}"

    def worker(self, id: str) -> str:
        """The heartbeat of a worker."""
        return f"{self.root}.{RecordKind.WORKER}.{token(id)}"

    def history(self, span: Wait, at: Moment, slot: int | None = None) -> str:
        """The counts of the minute or hour that began `at`, in one slot or in all."""
        return f"{self.root}.{RecordKind.HISTORY}.{span}.{at}.{'*' if slot is None else slot}"

    def claim_list(self, list_id: str) -> str:
        """The list of jobs that were claimed together."""
        return f"{self.root}.{RecordKind.CLAIM_LIST}.{list_id}"

    def audit(self, id: str) -> str:
        """Entries of the audit log whose ids begin alike: one message for each."""
        return f"{self.root}.{RecordKind.AUDIT}.{token(id[:AUDIT_BUCKET_DIGITS])}"

    def all(self, kind: RecordKind) -> str:
        """All messages of one kind."""
        return f"{self.root}.{kind}.>"

    def stored_in(self, schema: str) -> list[str]:
        """The subjects of a stream of this schema."""
        return [self.all(kind) for kind in RecordKind if KINDS_SINCE.get(kind, "") <= schema]

    def _keyed(self, kind: RecordKind, queue: str, key: str) -> str:
        return f"{self.root}.{kind}.{token(queue)}.{hashed(key)}"
