"""What the ASGI frameworks (FastAPI, Starlette, Litestar) share: an app that is open while the web
server runs."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

from mita.app import Mita
from mita.errors import UsageError
from mita.sync import serves_requests

from .embedded import WorkerChoice, embedded_worker, worker_factory

STATE = "mita"  # the name of the app in the state of the web server

# what a framework calls with its own app, and enters for as long as it serves
WebLifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any] | None]]


def check_app(app: object) -> None:
    """Raise `UsageError` if this is not a Mita app."""
    if not isinstance(app, Mita):
        raise UsageError(
            f"lifespan({type(app).__name__}): give your Mita app first, for example "
            'lifespan(Mita("sqlite:///jobs.db"))'
        )


@asynccontextmanager
async def serving(
    app: Mita, web_app: Any, inner: WebLifespan | None, worker: WorkerChoice
) -> AsyncIterator[dict[str, Any]]:
    """Open the app's store, enter the user's own lifespan, start the embedded worker; and end them
    in the opposite order. Yields the state of the user's lifespan, and the app as `mita`."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app)
        stack.enter_context(serves_requests())
        theirs = await stack.enter_async_context(_entered(inner, web_app)) if inner else None
        if (make := worker_factory(app, worker)) is not None:
            await stack.enter_async_context(embedded_worker(app, make))
        yield {STATE: app, **(theirs or {})}


def _entered(
    inner: WebLifespan, web_app: Any
) -> AbstractAsyncContextManager[Mapping[str, Any] | None]:
    made = inner(web_app)
    if not hasattr(made, "__aenter__"):
        name = getattr(inner, "__qualname__", repr(inner))
        raise UsageError(
            f"{name} is not a lifespan: put @asynccontextmanager (from contextlib) above it"
        )
    return made
