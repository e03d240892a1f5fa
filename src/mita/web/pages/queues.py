"""What can be done to a queue."""

from starlette.responses import Response

from mita.errors import UsageError
from mita.web.visit import Visit


async def act(visit: Visit) -> Response:
    """Pause or resume a queue."""
    sent = await visit.form()
    queue, verb = sent.get("queue"), sent.get("act")
    with visit.acting(sent.get("reason")):
        match verb:
            case "pause":
                await visit.app.pause(queue)
                return visit.done(f"Queue {queue} is paused: running jobs end, no others start.")
            case "resume":
                await visit.app.resume(queue)
                return visit.done(f"Queue {queue} starts jobs again.")
    raise UsageError(f"act={verb!r}: use pause or resume")
