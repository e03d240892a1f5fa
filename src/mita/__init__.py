"""Mita: a durable job queue in which when a job runs is first-class.

A name is imported from its home module when it is first used, so that `import mita` is quick and a
program loads only what it uses."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mita.app import Mita
    from mita.client import Events, SyncEvents
    from mita.client.bulk import Confirm, ShowProgress
    from mita.client.enqueue import TransactionalSender as TransactionalSender
    from mita.client.filters import JobFilters
    from mita.client.flow_run import FlowRun
    from mita.client.flows import Flow, GroupFlow, Link, TransactionalFlow
    from mita.client.repeat_spec import RepeatChoices as RepeatOptions
    from mita.client.repeats import Repeats
    from mita.engine.relay_process import StandaloneRelay as Relay
    from mita.engine.scheduler_process import StandaloneScheduler as Scheduler
    from mita.engine.worker import Worker
    from mita.errors import (
        JobCancelled,
        JobFailed,
        LeaseLost,
        MitaError,
        Rejected,
        StoreAway,
        StoreError,
        StoreMissing,
        UsageError,
    )
    from mita.events import ListenerThread as ListenerThread
    from mita.events.listener import Listener
    from mita.model.audit import AuditLine, AuditPage
    from mita.model.bulk import BulkPage, BulkRecord, BulkVerb
    from mita.model.dead_group import DeadGroup
    from mita.model.event import JobEvent
    from mita.model.event import Kind as EventKind
    from mita.model.gate import StoredLimit
    from mita.model.history import HistoryPoint
    from mita.model.job import WhenBusy
    from mita.model.limits import Key, Rate
    from mita.model.outcome import Answer
    from mita.model.pattern import All, Cron, Every, Pattern
    from mita.model.policy import Jitter, Retry
    from mita.model.record import (
        BackfillResult,
        BulkResult,
        Failure,
        FlowPage,
        FlowRecord,
        FlowStep,
        JobPage,
        JobRecord,
        RepeatRecord,
        StepOutcome,
    )
    from mita.model.record import DisplayState as DisplayState
    from mita.model.record import ProgressReport as ProgressReport
    from mita.model.record import SignalRecord as SignalRecord
    from mita.model.record import SleepRecord as SleepRecord
    from mita.model.record import StepRecord as StepRecord
    from mita.model.record import TimelineLine as TimelineLine
    from mita.model.record import WaitRecord as WaitRecord
    from mita.model.repeat import RepeatState
    from mita.model.view import Holder, QueueView, ResourceView, WorkerView
    from mita.rules.explain.evidence import Reason, ReasonCode
    from mita.rules.judge import Retention as Retention
    from mita.sealing import Keyring
    from mita.settings import AppChoices as AppOptions
    from mita.settings import StoreURL
    from mita.tasks import (
        Abort,
        Call,
        CallableTask,
        Depends,
        Handle,
        Job,
        Reschedule,
        Task,
        Tasks,
        Unavailable,
    )
    from mita.tasks import Bound as BoundTask
    from mita.tasks.choices import Choices as JobOptions
    from mita.tasks.choices import TaskChoices as TaskOptions
    from mita.tasks.flow_step import Step
    from mita.tasks.job import Scope as OnceScope

__all__ = [
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

# the names of each home module; `Here=There` has another name there
_HOMES = {
    "mita.app": "Mita",
    "mita.client": "Events SyncEvents",
    "mita.client.bulk": "Confirm ShowProgress",
    "mita.client.enqueue": "TransactionalSender",
    "mita.client.filters": "JobFilters",
    "mita.client.flow_run": "FlowRun",
    "mita.client.flows": "Flow GroupFlow Link TransactionalFlow",
    "mita.client.repeat_spec": "RepeatOptions=RepeatChoices",
    "mita.client.repeats": "Repeats",
    "mita.engine.relay_process": "Relay=StandaloneRelay",
    "mita.engine.scheduler_process": "Scheduler=StandaloneScheduler",
    "mita.engine.worker": "Worker",
    "mita.errors": (
        "JobCancelled JobFailed LeaseLost MitaError Rejected StoreAway StoreError "
        "StoreMissing UsageError"
    ),
    "mita.events": "ListenerThread",
    "mita.events.listener": "Listener",
    "mita.model.audit": "AuditLine AuditPage",
    "mita.model.bulk": "BulkPage BulkRecord BulkVerb",
    "mita.model.dead_group": "DeadGroup",
    "mita.model.event": "JobEvent EventKind=Kind",
    "mita.model.gate": "StoredLimit",
    "mita.model.history": "HistoryPoint",
    "mita.model.job": "WhenBusy",
    "mita.model.limits": "Key Rate",
    "mita.model.outcome": "Answer",
    "mita.model.pattern": "All Cron Every Pattern",
    "mita.model.policy": "Jitter Retry",
    "mita.model.record": (
        "BackfillResult BulkResult Failure FlowPage FlowRecord FlowStep JobPage JobRecord "
        "RepeatRecord StepOutcome DisplayState ProgressReport SignalRecord SleepRecord "
        "StepRecord TimelineLine WaitRecord"
    ),
    "mita.model.repeat": "RepeatState",
    "mita.model.view": "Holder QueueView ResourceView WorkerView",
    "mita.rules.explain.evidence": "Reason ReasonCode",
    "mita.rules.judge": "Retention",
    "mita.sealing": "Keyring",
    "mita.settings": "AppOptions=AppChoices StoreURL",
    "mita.tasks": (
        "Abort Call CallableTask Depends Handle Job Reschedule Task Tasks Unavailable "
        "BoundTask=Bound"
    ),
    "mita.tasks.choices": "JobOptions=Choices TaskOptions=TaskChoices",
    "mita.tasks.flow_step": "Step",
    "mita.tasks.job": "OnceScope=Scope",
}
_HOME_OF = {
    here: (module, there or here)
    for module, names in _HOMES.items()
    for here, _, there in (name.partition("=") for name in names.split())
}


if not TYPE_CHECKING:  # a type checker would take every name for one of this module

    def __getattr__(name: str) -> Any:
        """Import a public name from its home module. After that it is an ordinary name here."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, there = _HOME_OF[name]
        value = globals()[name] = getattr(import_module(module), there)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
