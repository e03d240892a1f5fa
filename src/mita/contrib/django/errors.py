"""The classes of errors that no handler raised: `TaskResult.errors` names them, so that
`error.exception_class` works for every ending of a task."""


class TaskTimedOut(TimeoutError):
    """The task ran longer than its timeout."""


class TaskDeadlineExceeded(TimeoutError):
    """The deadline of the task was over before it had succeeded."""


class TaskWorkerLost(Exception):
    """The worker that ran the task died, or was cut off from the store."""


class TaskProcessDied(Exception):
    """The process that the task ran in died."""


class TaskUnknown(Exception):
    """No worker has known the task for an hour."""


class TaskMovedTooOften(Exception):
    """The task was rescheduled more often than it may be."""


class TaskCancelled(Exception):
    """A person cancelled the task, or it expired before it could start."""


class TaskFailed(Exception):
    """The task failed for good. Receivers of `task_finished` find it in `sys.exc_info()`, with the
    traceback of the last attempt as its text: Django logs it."""


# by the first word of the error's text in the store
WITHOUT_A_CLASS = {
    "TimedOut": TaskTimedOut,
    "DeadlineExceeded": TaskDeadlineExceeded,
    "WorkerLost": TaskWorkerLost,
    "ProcessDied": TaskProcessDied,
    "UnknownTask": TaskUnknown,
    "TooManyReschedules": TaskMovedTooOften,
}
