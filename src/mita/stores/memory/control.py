"""What an operator changes while jobs run, and the heartbeats of workers."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.gate import StoredLimit
from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView

from .context import MemoryContext
from .resources import hold_key, limit_key, limit_queue
from .state.memory_state import LiveWorker


def pause(context: MemoryContext, queues: Sequence[str]) -> None:
    """Claim no more jobs of these queues."""
    for queue in queues:
        if context.state.queues.get(queue) is None:
            context.state.queues[queue] = context.now


def resume(context: MemoryContext, queues: Sequence[str]) -> None:
    """Claim jobs of these queues again."""
    for queue in queues:
        if context.state.queues.get(queue) is not None:
            context.state.queues[queue] = None
            context.topics.add(queue)


def hold(context: MemoryContext, queues: Sequence[str], key: str, until: When) -> None:
    """Start no job with this resource key in these queues before `until`."""
    for queue in queues:
        hold_key(context, (queue, key), until.moment(context.now))


def limit(
    context: MemoryContext, queues: Sequence[str], key: str | None, limit: StoredLimit | None
) -> None:
    """Set or remove the limit of these queues, or of this key in each of them."""
    for queue in queues:
        context.state.queues.setdefault(queue, None)
        if key is None:
            limit_queue(context, queue, limit)
        else:
            limit_key(context, (queue, key), limit)


def beat(context: MemoryContext, worker: WorkerView, keep: Wait) -> Moment:
    """Store the heartbeat of a worker. Returns the store's clock."""
    seen = replace(worker, seen=context.now)
    context.state.workers[worker.id] = LiveWorker(seen, context.now + keep)
    return context.now


def leave(context: MemoryContext, worker: str) -> None:
    """Delete a worker that has stopped."""
    context.state.workers.pop(worker, None)
