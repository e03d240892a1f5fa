"""Records that cannot be read: set aside, and counted by the doctor. What a script can tell by
itself, it sets aside."""

from collections.abc import Sequence

from mita.model.time import Moment
from mita.model.view import Finding
from mita.rules.readable import UNREADABLE
from mita.stores.shared.aside import finding
from mita.stores.shared.views import as_name, as_worker

from .codec import as_job, as_repeat, readable
from .context import Room, parts


async def set_aside_claimed(room: Room, queues: Sequence[str], token: Moment) -> None:
    """Of the jobs that were claimed under this token, those of which no claim can be made. Whoever
    dies before this is done leaves them to the reaper, who does the same."""
    for queue in queues:
        rows = await room.in_queue("running", queue, token)
        lost = [
            (id, handle, why)
            for id, handle, fixed, live in rows
            if (why := readable(id, fixed, live, queue))
        ]
        await set_aside(room, queue, lost)


async def set_aside(room: Room, queue: str, lost: Sequence[tuple[bytes, bytes, str]]) -> None:
    """Each as its id, its handle and the reason."""
    if lost:
        args = [part for one in lost for part in one]
        await room.in_queue("set_aside", queue, room.now(), room.keys.bell, *args)


async def doctor(room: Room) -> Finding:
    """Reads every job, repeat and worker there is."""
    ids: list[str] = []
    for queue in await room.queues():
        found = [
            id for id in await room.link.command("HKEYS", f"{room.keys.queue(queue)}:jobs") if id
        ]
        for part in parts(found):
            rows = await room.in_queue("find", queue, *part)
            jobs = [
                (id, as_job(row, queue, as_name(id)))
                for id, row in zip(part, rows, strict=True)
                if row is not None
            ]
            ids += [as_name(id) for id, job in jobs if is_lost(job.error)]
    return finding(sorted(ids), [*await _repeats(room), *await _workers(room)])


def is_lost(error: str | None) -> bool:
    return error is not None and error.startswith(UNREADABLE)


async def _repeats(room: Room) -> list[str]:
    found = await room.link.command("HGETALL", f"{room.keys.shared}:repeats")
    pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    repeats = [as_repeat([key, b"", packed]) for key, packed in pairs]
    return [f"repeat {repeat.key}" for repeat in repeats if is_lost(repeat.reason)]


async def _workers(room: Room) -> list[str]:
    found = await room.link.command("HGETALL", f"{room.keys.shared}:workers")
    pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    return [f"worker {as_name(id)}" for id, packed in pairs if as_worker(packed) is None]
