"""What `from mita import …` promises. Growing this list is a decision, not an accident."""

import inspect
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

import mita
from mita import errors
from mita.ports.clock import Clock
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store

PROMISED = [
    "Abort",
    "All",
    "Answer",
    "AppOptions",
    "AuditLine",
    "AuditPage",
    "BackfillResult",
    "BoundTask",
    "BulkPage",
    "BulkRecord",
    "BulkResult",
    "BulkVerb",
    "Call",
    "CallableTask",
    "Confirm",
    "Cron",
    "DeadGroup",
    "Depends",
    "DisplayState",
    "EventKind",
    "Events",
    "Every",
    "Failure",
    "Flow",
    "FlowPage",
    "FlowRecord",
    "FlowRun",
    "FlowStep",
    "GroupFlow",
    "Handle",
    "HistoryPoint",
    "Holder",
    "Jitter",
    "Job",
    "JobCancelled",
    "JobEvent",
    "JobFailed",
    "JobFilters",
    "JobOptions",
    "JobPage",
    "JobRecord",
    "Key",
    "Keyring",
    "LeaseLost",
    "Link",
    "Listener",
    "ListenerThread",
    "Mita",
    "MitaError",
    "OnceScope",
    "Pattern",
    "ProgressReport",
    "QueueView",
    "Rate",
    "Reason",
    "ReasonCode",
    "Rejected",
    "Relay",
    "RepeatOptions",
    "RepeatRecord",
    "RepeatState",
    "Repeats",
    "Reschedule",
    "ResourceView",
    "Retention",
    "Retry",
    "Scheduler",
    "ShowProgress",
    "SignalRecord",
    "SleepRecord",
    "Step",
    "StepOutcome",
    "StepRecord",
    "StoreAway",
    "StoreError",
    "StoreMissing",
    "StoreURL",
    "StoredLimit",
    "SyncEvents",
    "Task",
    "TaskOptions",
    "Tasks",
    "TimelineLine",
    "TransactionalFlow",
    "TransactionalSender",
    "Unavailable",
    "UsageError",
    "WaitRecord",
    "WhenBusy",
    "Worker",
    "WorkerView",
]

# Seen in a signature, and imported from elsewhere: the contract of a store, for tools that open
# one, and a clock for tests.
ELSEWHERE = {Store, Clock, JobOutbox}
# Parts that one class of Mita's own uses of another.
INNER = {"Call.limits", "Call.options", "ListenerThread.put", "TransactionalSender.within"}


def test_the_front_door_is_a_list() -> None:
    assert sorted(mita.__all__) == PROMISED
    assert all(hasattr(mita, name) for name in PROMISED)


def test_every_error_that_mita_raises_can_be_named() -> None:
    raised = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.MitaError)
    }
    assert raised <= set(PROMISED)


def test_every_error_is_a_mita_error() -> None:
    for error in (
        mita.UsageError,
        mita.StoreError,
        mita.JobFailed,
        mita.JobCancelled,
        mita.LeaseLost,
    ):
        assert issubclass(error, mita.MitaError)


def test_everything_that_a_public_signature_names_can_be_imported_from_mita() -> None:
    promised = {id(getattr(mita, name)) for name in PROMISED}
    hidden = {
        f"{owner}: {kind.__module__}.{kind.__qualname__}"
        for owner, annotation in annotations()
        if owner.partition("(")[0] not in INNER
        for kind in classes(annotation)
        if kind.__module__.startswith("mita.")
        and id(kind) not in promised
        and kind not in ELSEWHERE
    }
    assert not hidden


def annotations() -> Iterator[tuple[str, Any]]:
    """Every annotation of a public method, property or field of a public class, with the place
    where it stands."""
    for name in PROMISED:
        cls = getattr(mita, name)
        if not isinstance(cls, type):
            continue
        if issubclass(cls, msgspec.Struct):
            fields = msgspec.structs.fields(cls)
            yield from (
                (f"{name}.{field.name}", field.type)
                for field in fields
                if not field.name.startswith("_")
            )
        for member in dir(cls):
            if not member.startswith("_") or member in ("__call__", "__iter__", "__aiter__"):
                for function in functions(inspect.getattr_static(cls, member)):
                    hints = typing.get_type_hints(function, localns=LOCAL)
                    yield from (
                        (f"{name}.{member}({parameter})", hint) for parameter, hint in hints.items()
                    )


def functions(member: Any) -> Iterator[Any]:
    """The functions behind a member of a class."""
    found = (
        member.fget
        if isinstance(member, property)
        else inspect.unwrap(getattr(member, "__func__", member))
    )
    if inspect.isfunction(found):
        yield from [found, *typing.get_overloads(found)]


# what modules import for type checkers alone
LOCAL = {
    "CollectorRegistry": object,
    "Source": object,
    "Worker": mita.Worker,
    "StandaloneScheduler": mita.Scheduler,
    "StandaloneRelay": mita.Relay,
}


def classes(annotation: Any) -> Iterator[Any]:
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        yield annotation
    origin = typing.get_origin(annotation)
    if isinstance(origin, type):
        yield origin
    for part in typing.get_args(annotation):
        yield from (
            inner
            for each in (part if isinstance(part, list | tuple) else [part])
            for inner in classes(each)
        )
