"""The statements: one to a file in `sql/`.

When a statement is loaded, names in braces are filled in: the states of jobs, the fields of a
record and the tables of the namespace. So the SQL repeats nothing that `mita.model` and
`mita.rules` state. `{rows}` and `{where}` are filled in for each call.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from mita.model.job import PRIORITIES, Asked, State
from mita.model.outcome import PrioritiseJob, RewriteJob, TimelineEntry, TimelineKind
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import DAY, LATEST
from mita.rules.durable import ARRIVAL
from mita.rules.flow import (
    ADDED_TASK,
    FLOW_TASK,
    LONGEST_PLAIN_ID_CHARACTERS,
    STEP_SUFFIX_CHARACTERS,
)
from mita.rules.history import NUMBERS
from mita.rules.states import ALIVE, AMENDABLE, TABLE, TERMINAL, WAITING
from mita.stores.shared.record import COUNTERS, RESET_ON_RETRY
from mita.stores.shared.sql import JOB_COLUMNS, column
from mita.stores.sqlite.codec import CLAIM_ROW, LIMIT_COLUMNS, OWN_COLUMNS, SHARED_COLUMNS

PACKAGE = "mita.stores.sqlite"
LATER = {"rows", "where"}


def _text(value: object) -> str:
    return "null" if value is None else str(value) if isinstance(value, int) else f"'{value}'"


def _texts(values: Iterable[object]) -> str:
    return f"({', '.join(sorted(map(_text, values)))})"


def _counting(counter: str) -> str:
    """Add one to the counter whose name is `counter`."""
    return ", ".join(f"{name} = {name} + ({counter} = '{name}')" for name in COUNTERS)


def _highest_priority(queue: str, below: str) -> str:
    """The highest priority of the queued jobs of a queue that fulfils the condition `below`."""
    return (
        "(select priority from _mita_job indexed by _mita_ready "  # noqa: S608
        f"where state = {_text(State.QUEUED)} and queue = {queue} "
        f"and priority >= {PRIORITIES[0]} and priority {below} order by priority desc limit 1)"
    )


# The priorities in use, the highest first, and a null at the end. They are found by a search in the
# index for each of them, so the cost does not grow with the jobs or with the possible priorities.
_ANY_PRIORITY, _NEXT_PRIORITY = f"<= {PRIORITIES[-1]}", "< p.priority"
_PRIORITIES_IN_USE = f"""
  select {_highest_priority(":queue", _ANY_PRIORITY)}
  union all
  select {_highest_priority(":queue", _NEXT_PRIORITY)}
  from p where p.priority is not null"""  # noqa: S608
_QUEUES_AND_PRIORITIES = f"""
  select q.name, {_highest_priority("q.name", _ANY_PRIORITY)} from _mita_queue as q
  union all
  select p.queue, {_highest_priority("p.queue", _NEXT_PRIORITY)}
  from p where p.priority is not null"""  # noqa: S608

FILLED_IN = {
    **{state.value: _text(state) for state in State},
    "waiting": _texts(WAITING),
    "alive": _texts(ALIVE),
    "terminal": _texts(TERMINAL),
    **{f"from_{step}": _texts(sources) for step, (sources, _) in TABLE.items()},
    **{f"to_{step}": _text(target) for step, (_, target) in TABLE.items()},
    "may_prioritise": _texts(AMENDABLE[PrioritiseJob]),
    "may_rewrite": _texts(AMENDABLE[RewriteJob]),
    **{f"asked_{asked}": _text(asked) for asked in Asked},
    **{f"kind_{kind}": _text(kind) for kind in TimelineKind},
    "active": _text(RepeatState.ACTIVE),
    "paused": _text(RepeatState.PAUSED),
    "priorities_in_use": _PRIORITIES_IN_USE,
    "queues_and_priorities": _QUEUES_AND_PRIORITIES,
    "lowest_priority": str(PRIORITIES[0]),
    "highest_priority": str(PRIORITIES[-1]),
    "latest": str(LATEST),
    "arrivals_from": _text(ARRIVAL),
    "arrivals_to": _text(ARRIVAL[:-1] + chr(ord(ARRIVAL[-1]) + 1)),
    "flow_tasks": _texts((FLOW_TASK, ADDED_TASK)),
    "longest_plain_id": str(LONGEST_PLAIN_ID_CHARACTERS),
    "step_suffix": str(STEP_SUFFIX_CHARACTERS),
    "lock_longest": str(DAY),
    "job_columns": JOB_COLUMNS,
    "claim_row": CLAIM_ROW,
    "insert_columns": ", ".join((*SHARED_COLUMNS, *OWN_COLUMNS)),
    "limited_columns": ", ".join((*SHARED_COLUMNS, *LIMIT_COLUMNS)),
    "shared_marks": ", ".join("?" * len(SHARED_COLUMNS)),
    "reset_on_retry": ", ".join(
        f"{column(name)} = {_text(new)}" for name, new in RESET_ON_RETRY.items()
    ),
    "count_one": _counting(":counts"),
    "count_many": _counting("v.column6"),
    "count_alike": ", ".join(f"{name} = {name} + ?{9 + at}" for at, name in enumerate(COUNTERS)),
    "repeat_columns": ", ".join(Repeat.__struct_fields__),
    "history_numbers": ", ".join(NUMBERS),
    "history_given": ", ".join(f"json_extract(value, '$[{n}]')" for n in range(4 + len(NUMBERS))),
    "history_sums": ", ".join(f"{name} = {name} + excluded.{name}" for name in NUMBERS),
    "timeline_columns": ", ".join(TimelineEntry.__struct_fields__),
}

# What one job needs from its enqueue to its end.
_LONE_JOB = (
    *("clock_read", "enqueue_any_since", ("queues_add", 1, 1)),
    ("enqueue_insert", 1, len(SHARED_COLUMNS) + len(OWN_COLUMNS)),
    *("claim_any_stops", "claim_candidates", "claim_candidates_alike"),
    *("claim_take", "claim_next_due", ("settle_succeed", 1, 4)),
)


class Statements(dict[Any, str]):
    """The statements of one namespace, each loaded at its first use: `sql["claim_take"]`.

    `sql["extend", 4, 3]` is the statement with its `{rows}` written as 4 rows of 3 values."""

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.namespace = namespace

    def __missing__(self, key: str | tuple[str, int, int]) -> str:
        if isinstance(key, str):
            text = self._filled_in(read("sql", f"{key}.sql"))
        else:
            name, rows, width = key
            row = f"({','.join('?' * width)})"
            text = self[name].replace("{rows}", ",".join([row] * rows))
        self[key] = text
        return text

    def load(self) -> None:
        """Load what every job needs, so that the first job takes no longer than the next."""
        for key in _LONE_JOB:
            self[key]

    def filled_in(self, text: str) -> str:
        """A statement that is made in code, for the tables of this namespace."""
        if text not in self:
            self[text] = self._filled_in(text)
        return self[text]

    def _filled_in(self, text: str) -> str:
        code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        code = re.sub(r"\{(\w+)\}", _fill_in, code)
        space = self.namespace
        return code.replace("_mita_", f"_{space}_").replace("mita_jobs", f"{space}_jobs").strip()


def _fill_in(found: re.Match[str]) -> str:
    return found[0] if found[1] in LATER else FILLED_IN[found[1]]


@cache
def read(folder: str, name: str) -> str:
    """The text of a file of `sql/` or `migrations/`."""
    return files(PACKAGE).joinpath(folder, name).read_text(encoding="utf-8")


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Number and file name of every migration, in order."""
    names = sorted(
        entry.name
        for entry in files(PACKAGE).joinpath("migrations").iterdir()
        if entry.name.endswith(".sql")
    )
    return tuple((int(name.split("_", 1)[0]), name) for name in names)
