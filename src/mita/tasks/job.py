"""What a handler can do with its own job."""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar, cast, overload

import msgspec

from mita.errors import LeaseLost, UsageError
from mita.model.job import Claim
from mita.model.record import ProgressReport
from mita.model.time import DAY, Wait
from mita.rules.display import as_datetime
from mita.rules.durable import RESERVED
from mita.rules.labels import read_metadata
from mita.rules.names import check_key
from mita.rules.options import options_of
from mita.rules.text import note
from mita.rules.when import wait
from mita.twins import sync_twin

from .flow_job import FlowJob
from .results import Results
from .run import Run
from .stored import encode

T = TypeVar("T")
Scope = Literal["job", "global"]

# shared values, in this context
_computing: ContextVar[frozenset[str]] = ContextVar("computing", default=frozenset())

_checkpoints = msgspec.msgpack.Decoder(ProgressReport)


class Job(FlowJob):
    """The job that a handler is running. The `_sync` methods are for handlers that are sync
    functions."""

    __slots__ = ("_reported",)

    def __init__(self, claim: Claim, run: Run) -> None:
        super().__init__(claim, run)
        self._reported: ProgressReport | None = None

    @property
    def id(self) -> str:
        """The id of the job."""
        return self._claim.id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._claim.task

    @property
    def queue(self) -> str:
        """The queue of the job."""
        return self._claim.queue

    @property
    def priority(self) -> int:
        """The priority, from -100 to 100; higher goes first."""
        return self._claim.priority

    @property
    def attempt(self) -> int:
        """1 for the first run. Only failures count."""
        return self._claim.attempts + 1

    @property
    def reschedules(self) -> int:
        """How often the job was rescheduled."""
        return self._claim.reschedules

    @property
    def token(self) -> int:
        """A number that grows with every claim of this job: a fencing token for effects outside the
        store."""
        return self._claim.token

    @property
    def fire_time(self) -> datetime | None:
        """The nominal fire time of the repeat that made this job; None for other jobs."""
        return None if self._claim.fire_time is None else as_datetime(self._claim.fire_time)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the job."""
        return options_of(self._claim.options).tags

    @property
    def metadata(self) -> dict[str, Any]:
        """What the caller gave as `metadata`, as a new dict; empty if nothing was given."""
        return read_metadata(options_of(self._claim.options).metadata)

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop: its job was cancelled, it exceeded its timeout, lost its
        lease, or its worker shuts down."""
        return self._run.cancelled

    @property
    def checkpoint(self) -> ProgressReport | None:
        """The last progress of this run or an earlier one: where to continue. None if there is
        none."""
        if self._reported is None and self._claim.progress:
            # unreadable: the run begins from the start
            with suppress(msgspec.MsgspecError, ValueError, RecursionError):
                self._reported = _checkpoints.decode(self._claim.progress)
        return self._reported

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Store the progress of the run: how much is `done`, of which `total`, and a `message` for
        people. `mita top` and the record of the job show it, and a later run finds it as
        `checkpoint`. Raises `LeaseLost` if another worker may have the job."""
        reported = ProgressReport(
            _number("done", done),
            total if total is None else _number("total", total),
            note(message),
        )
        await self._run.report(encode(reported))
        self._reported = reported

    progress_sync = sync_twin(progress)

    @overload
    async def once(
        self,
        name: str,
        fn: Callable[[], Awaitable[T]],
        *,
        scope: Scope = ...,
        ttl: float | timedelta | None = ...,
    ) -> T: ...
    @overload
    async def once(
        self,
        name: str,
        fn: Callable[[], T],
        *,
        scope: Scope = ...,
        ttl: float | timedelta | None = ...,
    ) -> T: ...
    async def once(
        self,
        name: str,
        fn: Callable[[], Any],
        *,
        scope: Scope = "job",
        ttl: float | timedelta | None = None,
    ) -> Any:
        """Run `fn` once for this job, across retries and reschedules, and remember its result.

        With `scope="global"` the name is shared by all jobs and remembered for `ttl` (a day unless
        given). Of several jobs that ask for it at once, one runs `fn`, and the others wait for its
        value. If that one fails or dies, the next one runs `fn`. The result comes back as `fn`'s
        return annotation says, or as plain values."""
        keep, results = _keep(scope, ttl), Results(self.task, fn)
        _check_name(name)
        if scope == "job":
            known = await self._run.recall(name, False)
            return results.unpack(
                await self._compute(name, fn, results, None) if known is None else known
            )
        with _waiting_for(name):
            known = await self._run.take_once(name)
            if known is None:
                try:
                    known = await self._compute(name, fn, results, keep)
                finally:
                    await self._run.release_once(name)
        return results.unpack(known)

    async def _compute(
        self, name: str, fn: Callable[[], Any], results: Results, keep: Wait | None
    ) -> bytes:
        made = fn()
        packed = results.pack_any(await made if inspect.isawaitable(made) else made)
        return await self._remember(name, packed, keep)

    def once_sync(
        self,
        name: str,
        fn: Callable[[], T],
        *,
        scope: Scope = "job",
        ttl: float | timedelta | None = None,
    ) -> T:
        """`once` for a handler that is a sync function: `fn` runs on the handler's own thread."""
        keep, results = _keep(scope, ttl), Results(self.task, fn)
        _check_name(name)
        if scope == "job":
            known = self._run.call(self._run.recall(name, False))
            return cast(
                T,
                results.unpack(
                    self._compute_sync(name, fn, results, None) if known is None else known
                ),
            )
        with _waiting_for(name):
            known = self._run.call(self._run.take_once(name))
            if known is None:
                try:
                    known = self._compute_sync(name, fn, results, keep)
                finally:
                    self._run.call(self._run.release_once(name))
        return cast(T, results.unpack(known))

    def _compute_sync(
        self, name: str, fn: Callable[[], Any], results: Results, keep: Wait | None
    ) -> bytes:
        return self._run.call(self._remember(name, results.pack_any(fn()), keep))

    async def complete_in(self, connection: Any, result: Any = None) -> None:
        """Complete this job in the transaction that is open on your `connection`: your changes and
        the job's success are committed together or not at all. Return `result` from the handler as
        well. Raises `LeaseLost` if another worker may have the job: then roll back."""
        self._complete()
        await self._run.complete(connection, encode(result))

    def complete_in_sync(self, connection: Any, result: Any = None) -> None:
        """`complete_in` for a handler that is a sync function, on its own connection."""
        self._complete()
        self._run.complete_sync(connection, encode(result))

    async def _remember(self, name: str, packed: bytes, keep: Wait | None) -> bytes:
        stands = await self._run.remember(name, packed, keep)
        if stands is None:
            raise LeaseLost(f"job {self.id}: the lease expired before {name!r} could be remembered")
        return stands

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.task}, attempt {self.attempt}>"


@contextmanager
def _waiting_for(name: str) -> Iterator[None]:
    """Raise `UsageError` for a function that asks for its own value: it would wait for itself."""
    if name in _computing.get():
        raise UsageError(
            f"once({name!r}, scope='global') is called inside its own function: use another name "
            "there"
        )
    token = _computing.set(_computing.get() | {name})
    try:
        yield
    finally:
        _computing.reset(token)


def _check_name(name: str) -> None:
    if check_key("once", name).startswith(RESERVED):
        raise UsageError(f"once({name!r}): names that begin with {RESERVED!r} are Mita's own")


def _number(named: str, number: float) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise UsageError(
            f"progress({named}={number!r}): give a number, for example progress(3, 10, 'page 3')"
        )
    return number


def _keep(scope: Scope, ttl: float | timedelta | None) -> Wait | None:
    if scope not in ("job", "global"):
        raise UsageError(
            f"scope={scope!r}: use 'job' (once per job) or 'global' (once for all jobs, for `ttl`)"
        )
    if scope == "global":
        return DAY if ttl is None else wait("ttl", ttl)
    if ttl is not None:
        raise UsageError(
            "ttl belongs to scope='global': what is done once per job is remembered as long as "
            "the job"
        )
    return None
