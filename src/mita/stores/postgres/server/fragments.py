"""The text that is filled into statements when they are loaded: names in braces, such as
`{terminal}`.

States, kinds of timeline lines, guards and fields of a record come from `mita.model` and
`mita.rules`, so the SQL repeats none of them."""

from collections.abc import Iterable

from mita.model.gate import LONGEST_INTERVAL_US
from mita.model.history import SPANS_KEPT_MS
from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS, PRIORITIES, Asked, State
from mita.model.outcome import PrioritiseJob, RewriteJob, TimelineKind
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import DAY, LATEST
from mita.rules.asked import STATE_AFTER, kind_after, may_ask
from mita.rules.busy import REPLACED_NOTE
from mita.rules.durable import ARRIVAL
from mita.rules.flow import (
    ADDED_TASK,
    FLOW_TASK,
    LONGEST_PLAIN_ID_CHARACTERS,
    STEP_SUFFIX_CHARACTERS,
)
from mita.rules.history import NUMBERS
from mita.rules.judge import success
from mita.rules.states import ALIVE, AMENDABLE, TABLE, TERMINAL, WAITING
from mita.rules.timeline import TIMELINE_LINES
from mita.stores.postgres.codec import CLAIM_TEXTS, SHOWN_TEXTS
from mita.stores.postgres.limits.bounds import COUNTED_WAITERS
from mita.stores.postgres.throughput.new_columns import INSERT_TEXTS
from mita.stores.postgres.throughput.watermarks import SLACK_MS
from mita.stores.shared.record import COUNTERS, JOB, RESET_ON_RETRY
from mita.stores.shared.sql import JOB_COLUMNS, column

MOST_COUNTED = JOB["busy"].type.le


def _text(value: object) -> str:
    return "null" if value is None else str(value) if isinstance(value, int) else f"'{value}'"


def _texts(values: Iterable[object]) -> str:
    return f"({', '.join(sorted(map(_text, values)))})"


def _asked_of(row: str, which: Iterable[Asked]) -> str:
    """Whether one of these was asked of the running job `row`. Never null."""
    asked = list(which)
    return f"coalesce({row}.asked in {_texts(asked)}, false)" if asked else "false"


_cases = " ".join(f"when {_text(asked)} then {_text(to)}" for asked, to in STATE_AFTER.items())

# Of the lines of a claim (a queue and a priority each): the next time at which a job is due that is
# not due yet, how many have due jobs, how many queues have such lines (one bit for each), and
# whether a job has a priority that the process does not know.
_LINE_FACTS = """\
min(line.first) filter (where not line.ready) as next_due,
count(*) filter (where line.ready) as ready,
bit_count(coalesce(
  bit_or(1::bigint << mod(line.turn, 63)) filter (where line.ready), 0
)::bit(64)) as queues,
coalesce(bool_or(line.is_stray), false) as has_strays"""

FRAGMENTS = {
    **{state.value: _text(state) for state in State},
    # A state that the planner cannot see. A job that is named by id must be found by its id. If the
    # planner saw the state, and the table was small when the statement was planned, it would read
    # the whole index of that state once for each job.
    **{f"hidden_{state}": f"(select {_text(state)})" for state in State},
    "database_identity": (
        "(select d.oid::text || '@' || extract(epoch from pg_postmaster_start_time())::text "
        "from pg_catalog.pg_database as d where d.datname = current_database())"
    ),
    "waiting": _texts(WAITING),
    "alive": _texts(ALIVE),
    "arrival": _text(ARRIVAL),
    "flow_tasks": _texts((FLOW_TASK, ADDED_TASK)),
    "longest_plain_id": str(LONGEST_PLAIN_ID_CHARACTERS),
    "step_suffix": str(STEP_SUFFIX_CHARACTERS),
    "terminal": _texts(TERMINAL),
    **{f"from_{step}": _texts(sources) for step, (sources, _) in TABLE.items()},
    **{f"to_{step}": _text(target) for step, (_, target) in TABLE.items()},
    "may_prioritise": _texts(AMENDABLE[PrioritiseJob]),
    "may_rewrite": _texts(AMENDABLE[RewriteJob]),
    # what was asked of a running job (`rules.asked`)
    **{f"asked_{asked}": _text(asked) for asked in Asked},
    "state_after_asked": f"case j.asked {_cases} end",
    "asked_to_end": _asked_of("j", [asked for asked, to in STATE_AFTER.items() if to in TERMINAL]),
    "asked_to_wait": _asked_of("j", [asked for asked, to in STATE_AFTER.items() if to in WAITING]),
    **{
        f"too_late_to_{wanted}": _asked_of("f", [old for old in Asked if not may_ask(old, wanted)])
        for wanted in Asked
    },
    "kind_of_asked_success": _text(kind_after(Asked.CANCEL, success(b"", 0))),
    # timelines and counters
    **{f"kind_{kind.name.lower()}": _text(kind) for kind in TimelineKind},
    "longest_timeline": str(TIMELINE_LINES),
    "replaced_note": _text(REPLACED_NOTE),
    "count": ", ".join(f"{name} = j.{name} + (h.counts = '{name}')::int" for name in COUNTERS),
    "count_busy": f"busy = least(j.busy, {MOST_COUNTED - 1}) + 1",
    "reset_on_retry": ", ".join(
        f"{column(name)} = {_text(new)}" for name, new in RESET_ON_RETRY.items()
    ),
    # fields of a record
    "job_columns": JOB_COLUMNS,
    "repeat_columns": ", ".join(Repeat.__struct_fields__),
    **CLAIM_TEXTS,
    **SHOWN_TEXTS,
    **INSERT_TEXTS,
    # the history of runs
    "history_numbers": ", ".join(NUMBERS),
    "history_given": ", ".join(f"v.{name}" for name in NUMBERS),
    "history_found": ", ".join(f"h.{name}" for name in NUMBERS),
    "history_arrays": ", ".join(f"%({name})s::text::bigint[]" for name in NUMBERS),
    "history_sums": ", ".join(f"{name} = h.{name} + excluded.{name}" for name in NUMBERS),
    "history_spans": ", ".join(
        f"({span}::bigint, {kept}::bigint)" for span, kept in SPANS_KEPT_MS.items()
    ),
    # bounds
    "active": _text(RepeatState.ACTIVE),
    "paused": _text(RepeatState.PAUSED),
    "line_facts": _LINE_FACTS,
    "normal_weight": str(NORMAL_WEIGHT_THOUSANDTHS),
    "lowest_priority": str(PRIORITIES[0]),
    "highest_priority": str(PRIORITIES[-1]),
    "latest": str(LATEST),
    "lock_longest": str(DAY),
    "longest_interval_us": str(LONGEST_INTERVAL_US),
    "counted_waiters": str(COUNTED_WAITERS),
    # A due time so far behind the clock may be behind a watermark: then `_behind` must grow.
    "behind_ms": str(SLACK_MS // 2),
}
