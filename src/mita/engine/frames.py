"""The frames that a worker and its handler processes exchange: MessagePack, each after its length.
Never pickle."""

import struct
from typing import TypeAlias

import msgspec
from msgspec import Struct

from mita.model.ending import Ending
from mita.model.job import Claim, NewJob
from mita.model.time import Wait
from mita.rules.judge import Retention

# ---------------------------------------------------------------- from the worker


class Hello(Struct, frozen=True, tag=True, kw_only=True):
    """The first frame: what to import, and where the jobs are. `target` is MODULE:APP, `modules`
    are those that declare its process tasks, `path` is the worker's `sys.path`. `logs` is a level
    and whether lines are JSON; None leaves logging to the app's own module. `room` is how many
    bytes of a job the store takes."""

    target: str
    modules: tuple[str, ...]
    path: tuple[str, ...]
    url: str
    namespace: str
    keep: Retention
    room: int | None
    worker: int  # its process id
    logs: tuple[str, bool] | None = None


class RunJob(Struct, frozen=True, tag=True):
    """Run this job. `headers` is the trace that the run belongs to."""

    claim: Claim
    headers: bytes = b""


class StopRun(Struct, frozen=True, tag=True):
    """The job was cancelled: `job.cancelled` is true from now on."""


class Reply(Struct, frozen=True, tag=True):
    """The reply to the request of that `number`. `error` is the name of a class in `mita.errors`,
    with `text`."""

    number: int
    value: bytes | None = None
    error: str = ""
    text: str = ""


ToChild: TypeAlias = Hello | RunJob | StopRun | Reply

# ---------------------------------------------------------------- from the handler process


class Ready(Struct, frozen=True, tag=True):
    """The app is imported."""


class CannotStart(Struct, frozen=True, tag=True):
    """The app cannot be imported, and why."""

    reason: str


class ReportProgress(Struct, frozen=True, tag=True):
    """`job.progress`, packed."""

    packed: bytes


class LoadOnce(Struct, frozen=True, tag=True):
    """The stored value of `job.once`."""

    name: str
    shared: bool


class LoadOnceValues(Struct, frozen=True, tag=True):
    """All values that the job has stored, and its signals; the reply is a packed dict."""


class StartChild(Struct, frozen=True, tag=True):
    """Enqueue a child job."""

    job: NewJob


class AskForChild(Struct, frozen=True, tag=True):
    """How the child job with this id has ended."""

    id: str


class TakeOnce(Struct, frozen=True, tag=True):
    """The stored value of a shared `job.once`, or the lock to compute it."""

    name: str


class ReleaseOnce(Struct, frozen=True, tag=True):
    """Release that lock."""

    name: str


class StoreOnce(Struct, frozen=True, tag=True):
    """Store the value of `job.once`."""

    name: str
    value: bytes
    keep: Wait | None


class Completing(Struct, frozen=True, tag=True):
    """The handler is about to settle its job in its own transaction: write its progress first."""


class Completed(Struct, frozen=True, tag=True):
    """The handler settled its claim in its own transaction."""


class RunBegan(Struct, frozen=True, tag=True):
    """The process is about to run the job. A process that dies before this frame has not run it."""


class RunEnded(Struct, frozen=True, tag=True):
    """How the run ended."""

    ending: Ending


RequestBody: TypeAlias = (
    ReportProgress
    | LoadOnce
    | LoadOnceValues
    | StartChild
    | AskForChild
    | TakeOnce
    | ReleaseOnce
    | StoreOnce
    | Completing
    | Completed
)


class Request(Struct, frozen=True, tag=True):
    """What the handler's `job` needs from the worker."""

    number: int
    question: RequestBody


FromChild: TypeAlias = Ready | CannotStart | RunBegan | Request | RunEnded

# ---------------------------------------------------------------- bytes

_LENGTH = struct.Struct("!I")
HEAD = _LENGTH.size
_encode = msgspec.msgpack.Encoder().encode
to_child = msgspec.msgpack.Decoder(ToChild)
from_child = msgspec.msgpack.Decoder(FromChild)

pack_values = _encode  # the reply to `LoadOnceValues`
read_values = msgspec.msgpack.Decoder(dict[str, bytes]).decode


def pack(frame: ToChild | FromChild) -> bytes:
    """Returns the bytes of a frame, with its length."""
    body = _encode(frame)
    return _LENGTH.pack(len(body)) + body


def length(head: bytes | bytearray) -> int:
    """Returns the length of the frame after this head."""
    [size] = _LENGTH.unpack(head)
    return int(size)


def cut(buffer: bytearray) -> list[bytes]:
    """Remove the complete frames from the front of a buffer. Returns them."""
    frames = []
    while len(buffer) >= HEAD and len(buffer) >= (end := HEAD + length(buffer[:HEAD])):
        frames.append(bytes(buffer[HEAD:end]))
        del buffer[:end]
    return frames
