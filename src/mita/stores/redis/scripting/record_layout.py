"""The bytes of a job record, described once for Python and for Lua.

A job has a fixed part, which never changes, and a live part, which does. Both are MessagePack, so
that the client reads a part with one call. This is the fixed part (bytes counted from 1, as Lua
does; all numbers are big-endian):

    1        0x95     an array of five values
    2        0xcf     an unsigned integer of eight bytes follows
    3..10    created
    11       0xcf     an unsigned integer of eight bytes follows
    12..19   due
    20       priority, as one byte with a sign (two's complement)
    21       0xc4     bytes follow
    22       length of the handle
    23..     handle   age of the job (8 bytes), flag (1 byte), id
    ...      0x9b     an array: the CLIENT_FIELDS, as the client packed them

The script writes everything before the last array: only the server knows the time and the age. So
it can read due time, priority and handle at fixed positions, and copies the rest unread. The age
counts up in microseconds; it sorts jobs that are due at the same time. The flag is '0' plus 1 for a
resource key, 2 for a unique key, 4 for gates, 8 for a group (`fair`) and 16 for a group with a
weight other than 1. So a script that has the handle knows whether it must read more of the record.
MessagePack reads priorities of -32 and more at their place. Lower ones are read by a slower path
(`codec`). Two things change a fixed part: a debounce replaces payload, options and headers, and a
person who gives a job other arguments replaces the payload (`RewriteJob`).

The live part is an array of the LIVE_FIELDS. State, token, priority and due time come first: only
these differ between jobs that do the same at the same time, so scripts read and pack the rest once
for all of them (`lua/include/live_tails.lua`). False stands for None, which Lua cannot keep in a
list. The last of them, the group of a failed job, is left out if there is none. A job that was
never claimed or amended has no live part. Jobs on their first run that were
claimed together have the name of their batch instead (`lua/include/batches.lua`).

A new field is appended, and its default stands for it in older records: `NewJob` and `Job` are the
only lists to change. A job that has the default in all fields behind the FIRST_CLIENT_FIELDS is
packed without them, so most records are as short as they were. Version 0.1 wrote the fixed part as
one array of 15 (0x9f): the client's fields followed the handle directly. Such records are still
read.
"""

from itertools import product
from typing import Any, get_type_hints

from msgspec import inspect

from mita.model.job import Job, Priority, State
from mita.model.time import Moment
from mita.stores.shared.record import FIXED, JOB, LIVE

HEAD_FIELDS = ("created", "due", "priority", "handle")
FIRST_CLIENT_FIELDS = (
    *("task", "resource", "limit", "when_busy", "unique", "unique_for", "repeat"),
    *("fire_time", "payload", "options", "headers"),
)
LUA_CLIENT_FIELDS = FIRST_CLIENT_FIELDS[:7]  # the scripts read these; the others stay unread
LUA_FLOW_FIELDS = ("gates", "fair", "weight")  # and these of jobs whose flag says that they count
_IN_THE_KEY = ("id", "queue")
CLIENT_FIELDS = FIRST_CLIENT_FIELDS + tuple(
    name for name in FIXED if name not in (*FIRST_CLIENT_FIELDS, *_IN_THE_KEY)
)

_FIRST_LIVE_FIELDS = (
    *("state", "token", "priority", "due"),
    *("attempts", "reschedules", "busy", "interruptions", "crashes"),
    *("worker", "started", "asked", "asked_due", "asked_keep"),
    *("stranded", "finished", "expires", "extras"),
)
_IN_OTHER_KEYS = ("error", "result", "progress", "lease_until")
# Only failed jobs have this one. It is packed only if it is there, so it is the last.
LAST_LIVE_FIELD = "group"
LIVE_FIELDS = (
    *_FIRST_LIVE_FIELDS,
    *(name for name in LIVE if name not in (*_FIRST_LIVE_FIELDS, *_IN_OTHER_KEYS, LAST_LIVE_FIELD)),
    LAST_LIVE_FIELD,
)

# No record has fewer values than those of version 0.1.
OLDEST_CLIENT_FIELDS, OLDEST_LIVE_FIELDS = len(FIRST_CLIENT_FIELDS), len(_FIRST_LIVE_FIELDS)

_FLAG_PARTS = ("resource", "unique", "gates", "fair", "weight")  # they count 1, 2, 4, 8 and 16
PLAIN_FLAG = "0"
# The flag of a handle, by which of these a job has.
HANDLE_FLAGS = {
    has: chr(ord(PLAIN_FLAG) + sum(2**at for at, one in enumerate(has) if one))
    for has in product((False, True), repeat=len(_FLAG_PARTS))
}
FIRST_FLOW_FLAG = ord(PLAIN_FLAG) + 2 ** _FLAG_PARTS.index("gates")  # gates, or a group

# The head of a fixed part as Lua counts, and what MessagePack puts before each value.
LUA_CONSTANTS: dict[str, int | str] = {
    "HEAD_FORMAT": ">BBI8BI8bBB",
    "HEAD_ARRAY": 0x95,
    "HEAD_UINT64": 0xCF,
    "HEAD_BYTES": 0xC4,
    "OLD_ARRAY": 0x9F,  # what a fixed part of version 0.1 begins with
    "LONG_ARRAY": 0xDC,  # an array of more than 15 values: three bytes come before the first
    "DUE_AT": 12,
    "DUE_AND_PRIORITY_FORMAT": ">I8b",
    "HANDLE_LENGTH_AT": 22,
    "HANDLE_AT": 23,
    "AGE_FORMAT": ">I8",
    "NEWEST_FORMAT": ">I8I8",  # what a queue keeps of its newest job: its age, and when it came
    "OLDEST_LIVE_FIELDS": OLDEST_LIVE_FIELDS,
    "LIVE_START_BYTES": 3,  # before the first field
    "NEWEST_LIVE_FIELDS": len(LIVE_FIELDS) - 1,  # without the last, which few jobs have
    "PRIORITY_FIELD": LIVE_FIELDS.index("priority") + 1,
    "FIELDS_BEFORE_PAYLOAD": CLIENT_FIELDS.index("payload"),
    "CREATED_AT": 3,
    "FLAG_AT": 9,
    "PLAIN_FLAG": ord(PLAIN_FLAG),
    "FIRST_FLOW_FLAG": FIRST_FLOW_FLAG,
    "FIRST_WEIGHT_FLAG": ord(PLAIN_FLAG) + 2 ** _FLAG_PARTS.index("weight"),
    "ID_AT": 10,
}
AGE, ID = slice(0, 8), slice(9, None)  # of a handle, as Python counts
FLAG_IN_RECORD = slice(30, 31)  # of a fixed part, as Python counts
PRIORITY_IN_RECORD = slice(19, 20)
# MessagePack reads the bytes up to the first as 0 to 127, and those from the second on as -32 to
# -1. Before another byte with a sign it has the third.
HIGHEST_IN_ONE_BYTE, LOWEST_IN_ONE_BYTE, INT8 = b"\x7f", b"\xe0", b"\xd0"

_TYPES = get_type_hints(Job, include_extras=True)


def fixed_type(names: tuple[str, ...] = CLIENT_FIELDS) -> Any:
    """The type of a fixed part with these client's fields: a tuple whose values are checked."""
    client = tuple(_TYPES[name] for name in names)
    return tuple[Moment, Moment, Priority, bytes, tuple[client]]  # type: ignore[valid-type]


def client_defaults() -> list[Any]:
    """What stands for each client field in a record that is older than the field."""
    return [JOB[name].default for name in CLIENT_FIELDS]


def live_defaults() -> dict[str, Any]:
    """The live part of a job that was never claimed or amended. A False priority or due time means
    that of the fixed part.

    Three fields are only in this store: `asked_due` and `asked_keep` are what a reschedule or a
    cancel of a running job asked for; `extras` says whether the job has an error, a result,
    progress, a timeline or once values in other keys."""
    own = ("priority", "due", "asked_due", "asked_keep", "extras")
    found: dict[str, Any] = {
        name: False if name in own or JOB[name].optional else JOB[name].default
        for name in LIVE_FIELDS
    }
    return found | {"state": State.QUEUED.value}


def live_start() -> bytes:
    """What a live part without the last field begins with: that it is an array of so many."""
    return bytes((0xDC, 0, len(LIVE_FIELDS) - 1))


def live_types() -> list[tuple[str, Any, Any]]:
    """Name, type and default of each live field, as `msgspec.defstruct` takes them. The scripts
    check what may be False."""
    return [
        (name, Any if default is False else _TYPES[name], default)
        for name, default in (live_defaults() | {"state": State.QUEUED}).items()
    ]


def live_numbers(*, may_be_false: bool) -> list[int]:
    """The positions, as Lua counts, of the live fields that hold a whole number of 0 or more. A
    priority can be negative, so it is not among them."""
    own = ("asked_due", "asked_keep")
    return [
        at
        for at, (name, default) in enumerate(live_defaults().items(), 1)
        if (default is False) == may_be_false
        and name != "priority"
        and (name in own or (name in JOB and isinstance(JOB[name].type, inspect.IntType)))
    ]
