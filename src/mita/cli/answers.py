"""The answers to changes of jobs, in words."""

from mita.model.outcome import Answer

_LIVE = "only waiting and running jobs can be cancelled"
_NOT_DONE = "only jobs that have not succeeded can be rescheduled"
_DEAD = "only failed and cancelled jobs can be queued again"
_SIGNAL = "only jobs that have not ended can be signalled"
_STILL = "only jobs that do not run and have not succeeded can get other arguments"
_ENDED = "only jobs that have ended can be deleted; `mita cancel` ends a job"
_DONE = {
    "reschedule": "rescheduled",
    "cancel": "cancelled",
    "retry": "queued again",
    "delete": "deleted",
    "signal": "signalled",
    "amend": "changed",
}
_ASKED = {
    "reschedule": "it is running: it is rescheduled when this run ends",
    "cancel": "it is running: its handler is asked to stop, and it is cancelled when the run ends",
    "retry": "it is running: it is queued again when this run ends",
}


def in_words(command: str, answer: Answer, state: str = "") -> str:
    """The answer in words. `state` is the job's state if it was too late."""
    match answer:
        case Answer.DONE:
            return _DONE[command]
        case Answer.ASKED:
            return _ASKED[command]
        case Answer.TAKEN:
            return f"not {_DONE[command]}: another job has its unique key now"
        case Answer.UNKNOWN:
            return "not found: no such job is in the store"
        case Answer.UNREADABLE:
            return f"not {_DONE[command]}: its record cannot be read (`mita show` says why)"
    allowed = {
        "retry": _DEAD,
        "delete": _ENDED,
        "cancel": _LIVE,
        "reschedule": _NOT_DONE,
        "signal": _SIGNAL,
        "amend": _STILL,
    }[command]
    already = "already " if state == _DONE[command] else ""
    return f"not {_DONE[command]}: it is {already}{state}; {allowed}"


def counted_in_words(command: str, answer: Answer, n: int) -> str:
    """The answers of many jobs: `3 jobs queued again`."""
    jobs = f"{n:,} job{'' if n == 1 else 's'}"
    match answer:
        case Answer.DONE:
            return f"{jobs} {_DONE[command]}"
        case Answer.ASKED:
            return f"{jobs} running: {_DONE[command]} when the run ends"
        case Answer.TAKEN:
            return f"{jobs} not {_DONE[command]}: another job has the unique key now"
        case Answer.UNKNOWN:
            return f"{jobs} not {_DONE[command]}: no longer in the store"
        case Answer.UNREADABLE:
            return f"{jobs} not {_DONE[command]}: the record cannot be read (`mita show` says why)"
    return f"{jobs} not {_DONE[command]}: the state has changed since"
