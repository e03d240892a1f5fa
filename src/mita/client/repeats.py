"""Repeats: create, edit, list, pause, trigger, remove."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar, Unpack, overload

from msgspec import Struct

from mita.errors import UsageError
from mita.events import ClientEvents
from mita.events.signals import Enqueued
from mita.model.pattern import CATCH_UP_JOBS, Pattern
from mita.model.record import BackfillResult, RepeatRecord
from mita.model.repeat import Repeat
from mita.ports.ids import new_id
from mita.ports.store import Store
from mita.rules.display import as_datetime
from mita.rules.fitting import check_room
from mita.rules.schedule import jobs, spec, times
from mita.tasks import Call, Handle, Task
from mita.tasks.calls import check_call
from mita.tasks.handle import Tracker
from mita.twins import RunSync, sync_twin

from .acting import AuditRecorder, audited, of_repeat
from .backfill import batches, windows
from .bulk import ShowProgress
from .repeat_spec import RepeatChoices, fires_from, repeat_key, repeat_record, repeat_spec

log = logging.getLogger("mita.repeats")

T = TypeVar("T", bound=Task[Any, Any])


class Declared(Struct, frozen=True):
    """A repeat that the code declares. A worker stores it when it starts."""

    key: str
    task: Task[Any, Any]
    pattern: Pattern
    choices: RepeatChoices


class Repeats:
    """`app.repeats`: the methods for repeats, and the decorator `@app.repeats(Cron("0 9 * * *"))`
    above `@app.task`."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        tasks: Mapping[str, Task[Any, Any]],
        tracker: Tracker,
        reports: ClientEvents,
        run_sync: RunSync,
        recorder: AuditRecorder,
    ) -> None:
        self._store = open_store
        self._recorder = recorder
        self._reports = reports
        self._run_sync = run_sync
        self._tasks = tasks
        self._tracker = tracker
        self._declared: dict[str, Declared] = {}

    @overload
    def __call__(self) -> Awaitable[list[RepeatRecord]]: ...

    @overload
    def __call__(
        self, pattern: Pattern, *, key: str | None = None, **choices: Unpack[RepeatChoices]
    ) -> Callable[[T], T]: ...

    def __call__(
        self, pattern: Pattern | None = None, *, key: str | None = None, **choices: Any
    ) -> Any:
        """Declare that a task repeats, with its default arguments. A worker stores the repeat when
        it starts.

        Without a pattern, `await app.repeats()` is the same as `all`."""
        return self.all() if pattern is None else self._declares(pattern, key, choices)

    def _declares(self, pattern: Pattern, key: str | None, choices: Any) -> Callable[[T], T]:
        def declare(task: T) -> T:
            if not isinstance(task, Task):
                raise UsageError(
                    "@app.repeats(…) goes above @app.task: it takes the task, not the function"
                )
            if task.arguments.required:
                missing = ", ".join(task.arguments.required)
                raise UsageError(
                    f"task {task.name!r} needs {missing}: repeat it with app.repeat(key, "
                    "task.call(…), …)"
                )
            name = repeat_key(key, task.name, pattern)
            repeat_spec(task.call(), pattern, choices)
            self._declared[name] = Declared(name, task, pattern, choices)
            return task

        return declare

    async def put_declared(self) -> None:
        """Store the repeats that the code declares. Repeats that are stored already do not
        change. One whose end has passed is only logged: it must not keep a worker from starting."""
        for declared in self._declared.values():
            try:
                await self.put(
                    declared.key, declared.task.call(), declared.pattern, **declared.choices
                )
            except UsageError as error:
                log.warning("a declared repeat was not stored: %s", error)

    put_declared_sync = sync_twin(put_declared)

    @audited(of_repeat, "repeat")
    async def put(
        self, key: str | None, call: Call[Any], pattern: Pattern, **choices: Unpack[RepeatChoices]
    ) -> RepeatRecord:
        """Create or edit the repeat with this `key` (None: a key is made from task and pattern). It
        enqueues `call` as `pattern` says; the `choices` are those of `RepeatOptions`. An edit keeps
        the count; it also keeps the next fire, unless the pattern, the start or the end changed.
        Raises `UsageError` if the choices contradict each other."""
        check_call(call, self._tasks)
        key = repeat_key(key, call.task, pattern)
        wanted = repeat_spec(call, pattern, choices)
        store = await self._store()
        check_room(call.task, len(call.payload), store.room)
        stored = await self._find(store, key)
        put = spec.put(key, wanted, stored, await store.now())
        if stored is not None and (stored.spec, stored.state) == (put.spec, put.state):
            return repeat_record(stored)
        return repeat_record(await store.put_repeat(put))

    put_sync = sync_twin(put)

    async def all(self) -> list[RepeatRecord]:
        """Return all repeats, by their key."""
        return [repeat_record(repeat) for repeat in await (await self._store()).list_repeats()]

    all_sync = sync_twin(all)  # noqa: A003  (it is the method above)

    async def get(self, key: str) -> RepeatRecord | None:
        """Return the repeat with this `key`; None if there is none."""
        found = await self._find(await self._store(), key)
        return None if found is None else repeat_record(found)

    get_sync = sync_twin(get)

    @audited(of_repeat)
    async def remove(self, key: str) -> bool:
        """Remove the repeat with this `key`. The jobs that it made stay. Returns False if there was
        none."""
        return (await (await self._store()).remove_repeats([key]))[0]

    remove_sync = sync_twin(remove)

    @audited(of_repeat)
    async def pause(self, key: str) -> bool:
        """Pause the repeat with this `key`. Returns False if it was not active."""
        return (await (await self._store()).pause_repeats([key]))[0]

    pause_sync = sync_twin(pause)

    @audited(of_repeat)
    async def resume(self, key: str) -> bool:
        """Resume the paused repeat with this `key`; its `missed` policy decides about the fires
        that it missed, and its failures are counted from 0. Returns False if it was not paused."""
        return (await (await self._store()).resume_repeats([key]))[0]

    resume_sync = sync_twin(resume)

    @audited(of_repeat)
    async def trigger(self, key: str) -> Handle[Any]:
        """Enqueue one job of the repeat with this `key` now and return its handle. Neither its
        schedule nor its count change. Raises `UsageError` if there is no such repeat."""
        store = await self._store()
        wanted = spec.unpack((await self._known(store, key)).spec)
        now = await store.now()
        job = jobs.job(key, wanted, now, new_id())
        [receipt] = receipts = await store.enqueue([job])
        self._reports.emit(store, Enqueued([job], receipts, now))
        return Handle(receipt.id, receipt.created, self._tracker)

    trigger_sync = sync_twin(trigger)

    @audited(of_repeat)
    async def backfill(
        self,
        key: str,
        *,
        start: datetime,
        end: datetime,
        dry_run: bool = False,
        progress: ShowProgress | None = None,
    ) -> BackfillResult:
        """Enqueue one job of the repeat with this `key` for each of its fire times from `start`
        until before `end`, which must be over. Times without a zone are in that of the repeat. A
        fire time whose job is still in the store gets no second one, so a backfill can be run
        again.

        The schedule, the count and the failures of the repeat do not change. At most 10,000 jobs
        are made in one call. With `dry_run` they are only counted. `progress` is called with the
        number done and the total. Raises `UsageError` if there is no such repeat, or if the times
        make no sense."""
        store = await self._store()
        repeat = await self._known(store, key)
        wanted = spec.unpack(repeat.spec)
        now = await store.now()
        found = windows(repeat, wanted, start, end, now)
        shown = tuple(as_datetime(time) for time in found)
        if dry_run:
            return BackfillResult(key, shown)
        check_room(wanted.job.task, len(wanted.job.payload), store.room)
        done = enqueued = 0
        for batch in batches(key, wanted, found):
            receipts = await store.enqueue(batch)
            self._reports.emit(store, Enqueued(batch, receipts, now))
            done, enqueued = done + len(batch), enqueued + sum(one.created for one in receipts)
            if progress is not None:
                progress(done, len(found))
        return BackfillResult(key, shown, enqueued)

    backfill_sync = sync_twin(backfill)

    async def preview(self, what: str | Pattern, n: int = 10) -> list[datetime]:
        """Return the next `n` fire times of the repeat with this key, or of a pattern that starts
        now (`what` is either); in UTC. They are nominal: with jitter, each job is due up to that
        much later. Raises `UsageError` if there is no such repeat."""
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= CATCH_UP_JOBS:
            raise UsageError(f"n={n!r}: a preview shows 1 to {CATCH_UP_JOBS:,} fires")
        store = await self._store()
        if not isinstance(what, str):
            return [as_datetime(time) for time in islice(fires_from(what, await store.now()), n)]
        repeat = await self._known(store, what)
        wanted = spec.unpack(repeat.spec)
        left = n if wanted.limit is None else min(n, max(0, wanted.limit - repeat.count))
        return [as_datetime(time) for time in times.preview(wanted, repeat.cursor, left)]

    preview_sync = sync_twin(preview)

    async def _known(self, store: Store, key: str) -> Repeat:
        if (found := await self._find(store, key)) is None:
            raise UsageError(
                f"no repeat {key!r} is in the store: `app.repeats.all()` lists the stored ones"
            )
        return found

    @staticmethod
    async def _find(store: Store, key: str) -> Repeat | None:
        return (await store.find_repeats([key]))[0]
