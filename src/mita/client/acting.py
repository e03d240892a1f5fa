"""Recording in the audit log: who acts, and the one place that records what is done.

A verb of an operator is marked with `@audited(…)`. While `app.acting(…)` is set, each call of such
a verb writes one entry when it is over, whether it was done or refused. Without `acting` nothing is
written."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from mita.errors import MitaError, Rejected, StoreError
from mita.model.audit import AuditEntry
from mita.model.bulk import BulkRecord
from mita.model.outcome import Answer
from mita.model.record import BackfillResult, BulkResult
from mita.ports.acting import ACTING, noted
from mita.ports.ids import new_id
from mita.ports.store import Store
from mita.rules.audit import (
    SECRET_ARGUMENTS,
    kept_details,
    matching_jobs,
    reason_of,
    several,
    within_bounds,
)
from mita.tasks import Handle

log = logging.getLogger("mita.client")

S = TypeVar("S", bound="Audited")
P = ParamSpec("P")
T = TypeVar("T")
Arguments: TypeAlias = Mapping[str, Any]  # of one call, by name
Target: TypeAlias = Callable[[Any, Arguments], str]  # from the object and the arguments of a call

NOTHING_CHANGED = "nothing changed"
_ID_TIME_DIGITS = 12  # of an id: the time at which it was made
_SHOWN_IDS = 10  # of jobs that one call enqueued


class Actor(Struct, frozen=True):
    """The person or program on whose behalf verbs are called, through what (`via`), and why."""

    who: str
    via: str
    why: str


class _Acting(Struct, frozen=True):
    """Who acts on an app, which has this `recorder`. `actor` is None inside a verb that is
    recorded: what it calls in turn is a part of it. `outer` is what was set before, perhaps of
    another app."""

    recorder: "AuditRecorder"
    actor: Actor | None
    outer: "_Acting | None"


class Act(Struct):
    """One call of a verb. `processed` is how many jobs it has looked at, if it reports progress."""

    what: str
    target: str
    arguments: Arguments
    processed: int = 0

    def counting(self, progress: Callable[[int, int], object] | None) -> Callable[[int, int], None]:
        """A `progress` argument that counts, and then calls the given one."""

        def count(done: int, total: int) -> None:
            self.processed = done
            if progress is not None:
                progress(done, total)

        return count


class AuditRecorder:
    """Writes the audit log of one app."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]]) -> None:
        self._store = open_store
        self._last_id = ""

    @contextmanager
    def acting(self, actor: Actor | None) -> Iterator[None]:
        """Note who acts, until the end of the block, in this task and tasks that it starts."""
        with noted(_Acting(self, actor, ACTING.get())):
            yield

    def actor(self) -> Actor | None:
        """Who acts on this app now; None if nobody does."""
        acting: _Acting | None = ACTING.get()
        while acting is not None:
            if acting.recorder is self:
                return acting.actor
            acting = acting.outer
        return None

    async def recorded(self, act: Act, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call, and record it if someone acts. What it raises is recorded too."""
        actor = self.actor()
        if actor is None or act.arguments.get("dry_run"):
            return await call()
        try:
            with self.acting(None):
                value = await call()
        except (Exception, asyncio.CancelledError) as error:
            more = {"processed": act.processed} if act.processed else {}
            await self._write(actor, act, 0, _failure(error, act.arguments), more)
            raise
        await self._write(actor, act, *_outcome(value))
        return value

    async def _write(
        self, actor: Actor, act: Act, count: int, result: str, more: dict[str, Any]
    ) -> None:
        """Write one entry. The change has been made already: an error here is logged only, because
        a caller that sees one would make the change again."""
        entry = AuditEntry(
            id=self._next_id(),
            who=actor.who,
            via=actor.via,
            what=act.what,
            target=act.target,
            why=reason_of(actor.why, act.arguments.get("reason"), actor.who),
            count=count,
            result=result,
            details={**kept_details(act.arguments), **more},
        )
        try:
            await (await self._store()).record_audit([within_bounds(entry)])
        except StoreError as error:
            log.error(
                "%s of %s by %s (%s) is not in the audit log, which could not be written: %s",
                entry.what,
                entry.target,
                entry.who,
                entry.result,
                error,
            )

    def _next_id(self) -> str:
        """A new id that is behind the last one: what one program does within a millisecond is
        listed in its order."""
        id = new_id()
        if id <= self._last_id:
            id = f"{int(self._last_id[:_ID_TIME_DIGITS], 16) + 1:012x}{id[_ID_TIME_DIGITS:]}"
        self._last_id = id
        return id


def _failure(error: BaseException, arguments: Arguments) -> str:
    """What is recorded of an error. Its text may quote values of jobs if the verb was given some:
    then only its type is kept."""
    if isinstance(error, asyncio.CancelledError):
        return "interrupted: it may have been done in part"
    mistake = isinstance(error, MitaError) and not isinstance(error, StoreError)
    word = "refused" if mistake or isinstance(error, Rejected) else "failed"
    if any(name in arguments for name in SECRET_ARGUMENTS):
        return f"{word}: {type(error).__name__} (its text may hold values, and is not kept)"
    return f"{word}: {error}"


def _outcome(value: object) -> tuple[int, str, dict[str, Any]]:
    """How many jobs a verb changed, its result in words, and further details, from what it
    returned."""
    match value:
        case Answer():
            return int(value in (Answer.DONE, Answer.ASKED)), value.value, {}
        case BulkResult():
            answers = {answer.value: n for answer, n in value.answers.items()}
            done = "done" if value.answers or not value.matched else NOTHING_CHANGED
            return value.done, done, {"matched": value.matched, "answers": answers}
        case BulkRecord():
            return 0, "started", {"id": value.id}
        case BackfillResult():
            return value.enqueued, "done", {}
        case bool():
            return 0, "done" if value else NOTHING_CHANGED, {}
        case int():
            return value, "done" if value else NOTHING_CHANGED, {}
        case Handle():
            return _enqueued([value])
        case [Handle(), *_]:
            return _enqueued(value)  # type: ignore[arg-type]
    return 0, "done", {}


def _enqueued(handles: list[Handle[Any]]) -> tuple[int, str, dict[str, Any]]:
    created = sum(handle.created for handle in handles)
    ids = [handle.id for handle in handles[:_SHOWN_IDS]]
    return created, "done" if created else NOTHING_CHANGED, {"ids": ids}


class Audited(Protocol):
    """An object with verbs that are recorded."""

    @property
    def _recorder(self) -> AuditRecorder: ...


def audited(
    target: Target, what: str = "", verbs: Sequence[str] = ()
) -> Callable[
    [Callable[Concatenate[S, P], Coroutine[Any, Any, T]]],
    Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
]:
    """Mark an async method as a verb of an operator, whose calls are recorded while `app.acting` is
    set. `target` says what a call is applied to. `what` is the name of the verb in the log, by
    default that of the method. With `verbs`, it is the one of them that the argument `verb`
    names."""

    def mark(
        method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        signature = inspect.signature(method)

        async def verb(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if ACTING.get() is None:
                return await method(self, *args, **kwargs)
            given = signature.bind(self, *args, **kwargs).arguments
            named = given["verb"] if verbs and given["verb"] in verbs else what
            act = Act(named or method.__name__, target(self, given), given)
            if "progress" in signature.parameters:
                kwargs["progress"] = act.counting(given.get("progress"))
            return await self._recorder.recorded(act, lambda: method(self, *args, **kwargs))

        update_wrapper(verb, method)
        # `sync_twin` would call that, past this function
        del verb.__wrapped__  # type: ignore[attr-defined]
        verb.__signature__ = signature  # type: ignore[attr-defined]
        verb.records = True  # type: ignore[attr-defined]
        return verb

    return mark


# ---------------------------------------------------------------- targets


def _given(filters: Arguments) -> dict[str, Any]:
    return {name: value for name, value in filters.items() if value is not None}


def of_job(_: object, given: Arguments) -> str:
    """The job of an id."""
    return f"job {given['id']}"


def of_jobs(_: object, given: Arguments) -> str:
    """The jobs that filters choose."""
    return matching_jobs(given.get("filters", {}))


def of_failed_jobs(_: object, given: Arguments) -> str:
    """The jobs that filters choose; failed ones, unless a state is given."""
    return matching_jobs({"state": "failed", **_given(given.get("filters", {}))})


def of_queues(_: object, given: Arguments) -> str:
    """One queue, or several."""
    names = given.get("queues", ()) if "queue" not in given else (given["queue"],)
    return several("queue", [str(name) for name in names])


def of_key(_: object, given: Arguments) -> str:
    """A resource key, in one queue or in all."""
    queue = given.get("queue")
    return f"key {given['key']} of {'all queues' if queue is None else f'queue {queue}'}"


def of_repeat(_: object, given: Arguments) -> str:
    """A repeat. One that is given no key is named by its task."""
    if given.get("key") is not None:
        return f"repeat {given['key']}"
    return f"repeat of task {getattr(given.get('call'), 'task', '')}"


def of_flow(flow: Any, _: Arguments) -> str:
    """A flow."""
    return f"flow {flow.id}"


def of_new_flow(flow: Any, given: Arguments) -> str:
    """A flow that is enqueued."""
    steps = len(flow._steps)  # noqa: SLF001
    counted = f"{steps} step{'' if steps == 1 else 's'}"
    return f"flow {given['flow']}: {flow.name}, {counted}"


def of_calls(_: object, given: Arguments) -> str:
    """The tasks whose jobs are enqueued."""
    return several("task", list(dict.fromkeys(call.task for call in given["calls"])))
