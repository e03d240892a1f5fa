"""Traces, by OpenTelemetry's conventions for messaging: a span for each enqueue, and one for each
run, which is linked to it.

OpenTelemetry is not imported here unless the program has imported it, and nothing is done per job
unless the program has set a tracer provider. Without tracing the cost is one look into
`sys.modules` per enqueue and per batch of claimed jobs."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from mita.model.ending import Died, Ending, Lost, Raised, TimedOut, Unreadable
from mita.model.job import Claim
from mita.tasks import Call, Handle

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

TRACING = "opentelemetry.trace"  # the module that a program which is traced has imported
_SYSTEM = {"messaging.system": "mita"}
_encode = msgspec.msgpack.Encoder().encode
_headers = msgspec.msgpack.Decoder(dict[str, str])


def tracer() -> "Tracer | None":
    """Return the tracer; None unless the program has set a tracer provider."""
    api = sys.modules.get(TRACING)
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    return _tracer_of(provider)


@lru_cache(maxsize=8)
def _tracer_of(provider: Any) -> "Tracer":
    made: Tracer = provider.get_tracer("mita", version("mita"))
    return made


# ---------------------------------------------------------------- enqueuing


class Sending:
    """One enqueue of one or many jobs. `headers` is the trace context that is stored with each of
    them."""

    headers = b""

    def sent(self, handles: Sequence[Handle[Any]]) -> None:
        """Note the ids under which the jobs are stored."""


class _Traced(Sending):
    """A `Sending` with a span."""

    def __init__(self, span: "Span") -> None:
        from opentelemetry.propagate import inject

        self._span = span
        carrier: dict[str, str] = {}
        inject(carrier)
        self.headers = _encode(carrier) if carrier else b""

    def sent(self, handles: Sequence[Handle[Any]]) -> None:
        """Note the ids under which the jobs are stored."""
        if len(handles) == 1:
            self._span.set_attribute("messaging.message.id", handles[0].id)


_UNTRACED = nullcontext(Sending())


def sending(calls: Sequence[Call[Any]]) -> AbstractContextManager[Sending]:
    """One span for the whole call, for any number of jobs."""
    used = tracer()
    return _UNTRACED if used is None or not calls else _sending(used, calls)


@contextmanager
def _sending(used: "Tracer", calls: Sequence[Call[Any]]) -> Iterator[Sending]:
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {
        **_SYSTEM,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
    }
    name = "enqueue"
    if len(queues := {call.options.queue for call in calls}) == 1:
        [queue] = queues
        name, attributes["messaging.destination.name"] = f"enqueue {queue}", queue
    if len(tasks := {call.task for call in calls}) == 1:
        [attributes["mita.task"]] = tasks
    if len(calls) > 1:
        attributes["messaging.batch.message_count"] = len(calls)
    with used.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes) as span:
        yield _Traced(span)


# ---------------------------------------------------------------- running


@contextmanager
def running(used: "Tracer", claim: Claim) -> Iterator["Span"]:
    """The span of one run, in its own trace: a job may run days after its enqueue, or many times,
    and a bulk call has thousands of jobs. The span has a link to the enqueue."""
    from opentelemetry.context import attach, detach
    from opentelemetry.trace import INVALID_SPAN, SpanKind, set_span_in_context

    context, links = _enqueued_by(claim)
    attributes: dict[str, Any] = {
        **_SYSTEM,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": claim.queue,
        "messaging.message.id": claim.id,
        "mita.task": claim.task,
        "mita.attempt": claim.attempts + 1,
    }
    # with the baggage, without the span as a parent
    token = attach(set_span_in_context(INVALID_SPAN, context))
    try:
        name = f"process {claim.queue}"
        with used.start_as_current_span(
            name, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        ) as span:
            yield span
    finally:
        detach(token)


def _enqueued_by(claim: Claim) -> "tuple[Context | None, list[Link]]":
    from opentelemetry.propagate import extract
    from opentelemetry.trace import Link, get_current_span

    if not claim.headers:
        return None, []
    try:
        context = extract(_headers.decode(claim.headers))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None, []
    enqueue = get_current_span(context).get_span_context()
    return context, [Link(enqueue)] if enqueue.is_valid else []


def carried() -> bytes:
    """Return the current trace context, for a handler in another process."""
    from opentelemetry.propagate import inject

    carrier: dict[str, str] = {}
    inject(carrier)
    return _encode(carrier) if carrier else b""


@contextmanager
def carrying(headers: bytes) -> Iterator[None]:
    """Spans that are made in this block belong to the trace that `carried` returned."""
    if not headers or tracer() is None:
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.propagate import extract

    token = attach(extract(_headers.decode(headers)))
    try:
        yield
    finally:
        detach(token)


def ended(span: "Span", ending: Ending) -> None:
    """Note on the span how the run ended. The error of a secret task has only its type."""
    span.set_attribute("mita.ending", type(ending).__name__.lower())
    match ending:
        case Raised(error) | Unreadable(error):
            _failed(span, error)
        case TimedOut(seconds):
            _failed(span, f"TimedOut: ran longer than its timeout of {seconds:g} s")
        case Lost():
            _failed(span, "LeaseLost: the lease expired")
        case Died(reason):
            _failed(span, f"ProcessDied: {reason}")


def too_late(span: "Span") -> None:
    """Note on the span that the job was settled without this run: the run lasted
    longer than its timeout, its lease or its worker."""
    span.set_attribute("mita.ending", "too late")
    _failed(span, "TooLate: the job was settled before its handler ended")


def _failed(span: "Span", error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    head, _, trace = error.partition("\n")
    kind, _, message = head.partition(": ")
    kind = kind.split(" ", 1)[0]
    span.set_attribute("error.type", kind)
    attributes = {
        "exception.type": kind,
        "exception.message": message or head,
        "exception.stacktrace": trace,
    }
    span.add_event("exception", {name: text for name, text in attributes.items() if text})
    span.set_status(Status(StatusCode.ERROR, head))
