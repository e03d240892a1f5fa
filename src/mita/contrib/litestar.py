"""Mita in a Litestar app.

from mita.contrib.litestar import lifespan, provide_mita

web = Litestar([…], lifespan=[lifespan(app)], dependencies={"app": Provide(provide_mita)})
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from mita.app import Mita
from mita.errors import UsageError

from .asgi import STATE, check_app, serving
from .embedded import WorkerChoice

try:
    from litestar import Litestar
    from litestar.datastructures import State
except ModuleNotFoundError as missing:
    raise UsageError("Litestar is not installed: pip install 'mita[litestar]'") from missing

__all__ = ["lifespan", "provide_mita"]


def lifespan(
    app: Mita, *, worker: WorkerChoice = False
) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Return one entry of `Litestar(lifespan=[…])`: the app's store is opened before the first
    request and closed after the last one. If it cannot be opened, the web server does not start,
    and says why. Litestar enters the entries of its list in order, and leaves them in the opposite
    order: put this one first if others need it. The app is also in the state, as `state.mita`.

    `worker=True` also runs a worker in the web process, for development; put the entry last then.
    The worker has 5 s to finish its jobs when the server stops. `worker=lambda: app.worker(…)`
    chooses its options.

    Raises `UsageError` if `app` is not a Mita app."""
    check_app(app)

    @asynccontextmanager
    async def opened(web_app: Litestar) -> AsyncIterator[None]:
        async with serving(app, web_app, None, worker):
            web_app.state[STATE] = app
            try:
                yield
            finally:
                del web_app.state[STATE]

    return opened


async def provide_mita(state: State) -> Mita:
    """A dependency that gives the app: `dependencies={"app": Provide(provide_mita)}`, for a
    parameter `app: NamedDependency[Mita]` (before Litestar 2.23: `app: Mita`). Raises `UsageError`
    if the web app was made without `lifespan`, or if a test did not enter it."""
    found = state.get(STATE)
    if not isinstance(found, Mita):
        raise UsageError(
            "this web app has no Mita app: make it with lifespan=[lifespan(app)]. In a test, enter "
            "its lifespan: `with TestClient(web) as client:`"
        )
    return found
