"""Tells open pages that something happened, by server-sent events.

All pages of a process share one subscription to the app's events. A page gets one short message for
all that happened within a third of a second, and reads itself again."""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from mita.app import Mita
from mita.errors import MitaError

from .visit import Visit

log = logging.getLogger("mita.web")

MOST_PAGES = 100  # that are live at once
GATHER_S = 0.3  # what happens within it is one message
TICK_S = 5.0  # a page is read again this often, for what has no event: workers, ages
SUBSCRIBE_AGAIN_S = 2.0  # after the store was away
MOST_NAMED_JOBS = 50


class LiveFeed:
    """The pages that are open, and the subscription that they share."""

    def __init__(self, app: Mita) -> None:
        self._app = app
        self._pages: set[asyncio.Event] = set()
        self._happened: dict[asyncio.Event, set[str]] = {}
        self._subscription: asyncio.Task[None] | None = None
        self._is_subscribed = asyncio.Event()
        self._is_ending = False
        _feeds.add(self)

    @property
    def is_full(self) -> bool:
        """Whether no more pages can be live."""
        return len(self._pages) >= MOST_PAGES

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield the messages for one page, until it is closed."""
        woken = asyncio.Event()
        self._pages.add(woken)
        self._happened[woken] = set()
        if self._subscription is None or self._subscription.done():
            self._subscription = asyncio.create_task(self._subscribe())
        try:
            # a page reads itself at this message; what happens after it must reach the page
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_subscribed.wait(), SUBSCRIBE_AGAIN_S)
            yield b"retry: 2000\nevent: hello\ndata: {}\n\n"
            while not self._has_ended():
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), TICK_S)
                if not woken.is_set():
                    yield b"event: tick\ndata: {}\n\n"
                    continue
                if self._has_ended():
                    return
                await asyncio.sleep(GATHER_S)
                woken.clear()
                names, self._happened[woken] = self._happened[woken], set()
                data = msgspec.json.encode({"jobs": sorted(names)})
                yield b"event: change\ndata: " + data + b"\n\n"
        finally:
            self._pages.discard(woken)
            del self._happened[woken]
            if not self._pages:
                await self.close()

    def _has_ended(self) -> bool:
        return self._is_ending

    def end(self) -> None:
        """End the messages of all open pages, and of those that still come."""
        self._is_ending = True
        self.wake()

    async def close(self) -> None:
        """End the subscription."""
        task, self._subscription = self._subscription, None
        self._is_subscribed.clear()
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def wake(self, name: str = "") -> None:
        """Something happened, to the job of this id if it is given."""
        for page in self._pages:
            page.set()
            names = self._happened[page]
            if name and len(names) < MOST_NAMED_JOBS:
                names.add(name)

    async def _subscribe(self) -> None:
        while True:
            try:
                async with self._app.events() as events:
                    self._is_subscribed.set()
                    async for event in events:
                        self.wake(event.id)
            except MitaError as error:
                log.warning("the dashboard is not live, because the store failed: %s", error)
            await asyncio.sleep(SUBSCRIBE_AGAIN_S)


_feeds: "weakref.WeakSet[LiveFeed]" = weakref.WeakSet()


def end_streams() -> None:
    """End the messages of all open pages of this process. A server that stops would wait for them
    otherwise."""
    for feed in list(_feeds):
        feed.end()


async def stream(visit: Visit) -> Response:
    """The messages for one page."""
    feed = visit.site.feed
    if feed.is_full:
        return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": "30"})
    headers = {"X-Accel-Buffering": "no"}
    if visit.request.method == "HEAD":  # its answer has an end
        return Response(None, headers=headers, media_type="text/event-stream")
    return StreamingResponse(feed.messages(), media_type="text/event-stream", headers=headers)
