"""A store in which every field that can hold a user's text holds a payload. It is written through
the store's own verbs: the client refuses most of these names, but other programs may not."""

import asyncio

import msgspec

from mita import Every, Mita
from mita.model.audit import AuditEntry
from mita.model.ending import Raised
from mita.model.gate import Gate, StoredLimit
from mita.model.job import NewJob
from mita.model.outcome import CancelJob, Progress, Settlement, SignalJob
from mita.model.pattern import JobTemplate, RepeatSpec
from mita.model.policy import JobOptions
from mita.model.record import ProgressReport
from mita.model.time import DAY, HOUR, When
from mita.model.view import WorkerView
from mita.ports.ids import new_id
from mita.ports.store import OnceValue, Store
from mita.rules.judge import judge
from mita.rules.schedule import spec

from .payloads import PAYLOADS


def fill_sync(url: str) -> list[str]:
    """Fill the store at this URL. Returns the id of a job for each payload."""
    return asyncio.run(_fill(url))


async def _fill(url: str) -> list[str]:
    async with Mita(url) as app:
        store = await app.open_store()
        try:
            ids = [await _failed(app, store, payload) for payload in PAYLOADS]
            for payload in PAYLOADS:
                await _running(store, payload)
                await _around(store, payload)
            await _flows_and_repeats(app, store)
        finally:
            await store.close()
    return ids


def _job(payload: str, **given: object) -> NewJob:
    facts: dict[str, object] = {
        "id": new_id(),
        "task": payload,
        "queue": payload,
        "payload": msgspec.msgpack.encode({"text": payload, payload: [payload]}),
        "options": msgspec.msgpack.encode(
            JobOptions(tags=(payload,), metadata=msgspec.msgpack.encode({payload: payload}))
        ),
        "tags": (payload,),
        "unique": payload,
        "resource": payload,
        "fair": payload,
        "repeat": payload,
    }
    return NewJob(**{**facts, **given})  # type: ignore[arg-type]


async def _failed(app: Mita, store: Store, payload: str) -> str:
    """A job that failed with the payload as its error, and has it everywhere."""
    job = _job(payload)
    await store.enqueue([job])
    [claim] = (await store.claim([payload], 1, HOUR, payload)).claims
    await store.progress([Progress(claim, _progress(payload))])
    await store.store_once(OnceValue(claim=claim, name=f"once:{payload}", value=b"\xc0"))
    await store.amend([job.id], SignalJob(payload, msgspec.msgpack.encode(payload)))
    ending = Raised(f'{payload}: {payload}\n  File "{payload}", line 1, in {payload}', final=True)
    await store.settle([Settlement(claim, judge(claim, ending, app.kept, 0.5))])
    cancelled = _job(payload, unique=None)
    await store.enqueue([cancelled])
    await store.amend([cancelled.id], CancelJob(DAY, payload))
    return job.id


async def _running(store: Store, payload: str) -> None:
    """A job that runs, and one that waits for its key."""
    await store.enqueue([_job(payload, unique=None), _job(payload, unique=None)])
    for claim in (await store.claim([payload], 2, HOUR, payload)).claims:
        await store.progress([Progress(claim, _progress(payload))])
    gate = Gate(f"{payload}!", 1, 1_000_000, 1)
    await store.enqueue([_job(payload, unique=None, resource=None, gates=(gate,))])


async def _around(store: Store, payload: str) -> None:
    """A worker, a hold, limits and an entry of the audit log."""
    worker = WorkerView(
        id=payload,
        name=payload,
        host=payload,
        pid=1,
        queues=(payload,),
        tasks=(payload,),
        slots=1,
        rates={payload: 1.0},
        version=payload,
    )
    await store.beat(worker, HOUR)
    await store.hold([payload], payload, When(HOUR))
    await store.limit([payload], payload, StoredLimit(3))
    await store.limit([payload], None, StoredLimit(4))
    entry = AuditEntry(
        id=new_id(),
        who=payload,
        via=payload,
        what=payload,
        target=payload,
        why=payload,
        result=payload,
        details={payload: payload},
    )
    await store.record_audit([entry])


async def _flows_and_repeats(app: Mita, store: Store) -> None:
    """A flow and a repeat with each payload as its name."""

    @app.task(name="step")
    async def step(text: str) -> None: ...

    for payload in PAYLOADS:
        flow = app.flow("flow")
        flow.name = payload
        first = flow.add(step.call(payload))
        flow.add(step.call(payload), after=[first])
        await flow.enqueue()
        job = JobTemplate(
            task=payload, queue=payload, payload=b"\x80", resource=payload, tags=(payload,)
        )
        wanted = RepeatSpec(pattern=Every(3600), job=job)
        await store.put_repeat(spec.put(payload, wanted, None, await store.now()))


def _progress(payload: str) -> bytes:
    return msgspec.msgpack.encode(ProgressReport(1, 2, payload))
