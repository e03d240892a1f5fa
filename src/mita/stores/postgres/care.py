"""Keeping the place in order."""

from collections.abc import Sequence

import msgspec

from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView

from . import pubsub, resources
from .arrays import texts
from .steps import Act, Step, Steps, ask

_pack = msgspec.msgpack.Encoder().encode


def pause(_: Act, queues: Sequence[str]) -> Steps[None]:
    yield Step(ask("pause", names=texts(sorted(set(queues)))), last=True)


def resume(act: Act, queues: Sequence[str]) -> Steps[None]:
    [rows] = yield Step(ask("resume", names=texts(sorted(set(queues)))), last=True)
    act.topics.update(name for (name,) in rows)


def hold(act: Act, queues: Sequence[str], key: str, until: When) -> Steps[None]:
    places = [(queue, key) for queue in sorted(set(queues))]
    answers = yield Step(
        resources.lock(act, places),
        ask(
            "hold",
            queues=texts([queue for queue, _ in places]),
            key=key,
            wait=until.wait,
            at=until.at,
        ),
        resources.unhold(places),  # a moment that has come lifts the hold
        resources.wake(act, places, [None] * len(places)),
        last=True,
    )
    resources.note_woken(act, answers[-1])
    act.topics.update(queues)  # the sleepers' next moment has changed


def beat(_: Act, worker: WorkerView, keep: Wait) -> Steps[Moment]:
    """One that is undone is missed once, and the next comes soon: nobody waits for the disk."""
    [[(now,)]] = yield Step(ask("now"), last=True)
    seen = _pack(msgspec.structs.replace(worker, seen=now))
    yield Step(
        ask("beat", id=worker.id, view=seen, keep=keep),
        ask("forget_workers"),
        last=True,
        synced=False,
    )
    return int(now)


def leave(_: Act, worker: str) -> Steps[None]:
    yield Step(ask("leave", id=worker), last=True)


def prune(_: Act, limit: int, most: int) -> Steps[int]:
    [[(gone,)], queues] = yield Step(ask("prune_expired", limit=limit), ask("queues"), last=True)
    for queue, _paused in queues:
        if gone >= limit:
            break
        [[(more,)]] = yield Step(
            ask("prune_surplus", queue=queue, most=most, limit=limit - gone), last=True
        )
        gone += more
    yield Step(ask("prune_rest"), *pubsub.forget(), last=True)
    return int(gone)
