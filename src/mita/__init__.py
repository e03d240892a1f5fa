"""Mita: a durable job queue in which when a job runs is first-class."""

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
