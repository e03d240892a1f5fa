"""Traces, by OpenTelemetry's conventions for messaging: a span for each enqueue, and one for each
run, which is linked to it. The steps of a flow are in one trace, and so is a child job with its
parent.

OpenTelemetry is not imported here unless the program has imported it, and nothing is done per job
unless the program has set a tracer provider. Without tracing the cost is one look into
`sys.modules` per enqueue and per batch of claimed jobs."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from mita.model.ending import Died, Ending, Lost, Raised, TimedOut, Unreadable
from mita.model.flow import FlowPlace
from mita.model.job import Claim
from mita.rules.options import options_of
from mita.tasks import Call, Handle

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

TRACING = "opentelemetry.trace"  # the module that a program which is traced has imported
_SYSTEM = {"messaging.system": "mita"}
_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8
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
    from importlib.metadata import version

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
_NO_SPAN: AbstractContextManager[None] = nullcontext()


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


def sending_flow(id: str, name: str, steps: int) -> AbstractContextManager[Sending]:
    """One span for the enqueue of a whole flow."""
    used = tracer()
    return _UNTRACED if used is None else _sending_flow(used, id, name, steps)


@contextmanager
def _sending_flow(used: "Tracer", id: str, name: str, steps: int) -> Iterator[Sending]:
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {
        **_SYSTEM,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.batch.message_count": steps,
        "mita.flow": id,
        "mita.flow.name": name,
    }
    with used.start_as_current_span(
        f"enqueue flow {name}", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        yield _Traced(span)


# ---------------------------------------------------------------- running


@contextmanager
def running(used: "Tracer", claim: Claim, after: Sequence[bytes] = ()) -> Iterator["Span"]:
    """The span of one run, in its own trace: a job may run days after its enqueue, or many times,
    and a bulk call has thousands of jobs. The span has a link to the enqueue.

    The run of a step of a flow is a child of the enqueue of the flow instead, and has links to the
    runs `after` which it comes (as `span_id` returns them). The run of a child job is a child of
    the run that started it."""
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
    place = options_of(claim.options).flow
    if place is None:  # with the baggage, without the span as a parent
        context = set_span_in_context(INVALID_SPAN, context)
    else:
        attributes |= _place_in_flow(place)
        links = [link for one in after if (link := _link(one)) is not None]
    token = attach(context or set_span_in_context(INVALID_SPAN))
    try:
        name = f"process {claim.queue}"
        with used.start_as_current_span(
            name, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        ) as span:
            yield span
    finally:
        detach(token)


def _place_in_flow(place: FlowPlace) -> dict[str, Any]:
    if place.parent is not None:
        return {"mita.parent": place.parent}
    return {"mita.flow": place.flow, "mita.step": place.number}


def span_id(span: "Span") -> bytes:
    """The ids of a span and its trace, for a link to it."""
    context = span.get_span_context()
    return (
        context.trace_id.to_bytes(_TRACE_ID_BYTES)
        + context.span_id.to_bytes(_SPAN_ID_BYTES)
        + bytes([context.trace_flags])
    )


def _link(packed: bytes) -> "Link | None":
    """A link to the span that `span_id` has packed; None if that cannot be read."""
    from opentelemetry.trace import Link, SpanContext, TraceFlags

    if len(packed) != _TRACE_ID_BYTES + _SPAN_ID_BYTES + 1:
        return None
    trace = int.from_bytes(packed[:_TRACE_ID_BYTES])
    span = int.from_bytes(packed[_TRACE_ID_BYTES:-1])
    context = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(packed[-1]))
    return Link(context) if context.is_valid else None


def doing_step(name: str) -> AbstractContextManager[None]:
    """The span of a step of a durable handler (`job.step`), inside the span of its run."""
    used = tracer() if TRACING in sys.modules else None
    return _NO_SPAN if used is None else _doing_step(used, name)


@contextmanager
def _doing_step(used: "Tracer", name: str) -> Iterator[None]:
    from opentelemetry.trace import Status, StatusCode

    # the text of the error may be secret, and is recorded with the run
    with used.start_as_current_span(
        f"step {name}", record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, type(error).__qualname__))
            raise


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


def carried(span: "Span | None" = None) -> bytes:
    """Return the current trace context, for a handler in another process; or that of a span, for a
    job that it enqueues."""
    from opentelemetry.propagate import inject
    from opentelemetry.trace import set_span_in_context

    carrier: dict[str, str] = {}
    inject(carrier, None if span is None else set_span_in_context(span))
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
