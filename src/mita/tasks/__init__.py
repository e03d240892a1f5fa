"""Tasks: functions that can be enqueued, their arguments and options, and what a handler can do."""

from .arguments import PAYLOAD_BYTES as PAYLOAD_BYTES
from .arguments import Arguments as Arguments
from .blueprint import Composed as Composed
from .blueprint import Tasks as Tasks
from .declare import Declare as Declare
from .depends import Depends as Depends
from .handle import Call as Call
from .handle import Handle as Handle
from .handle import Sender as Sender
from .job import Job as Job
from .options import Options as Options
from .options import choose as choose
from .registry import Registry as Registry
from .run import Run as Run
from .signals import Abort as Abort
from .signals import Reschedule as Reschedule
from .signals import Suspend as Suspend
from .signals import Unavailable as Unavailable
from .task import Bound as Bound
from .task import CallableTask as CallableTask
from .task import Task as Task
