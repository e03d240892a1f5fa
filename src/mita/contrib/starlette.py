"""Mita in a Starlette app.

from mita.contrib.starlette import lifespan

web = Starlette(routes=[…], lifespan=lifespan(app))
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from mita.app import Mita
from mita.errors import UsageError

from .asgi import STATE, WebLifespan, check_app, serving
from .embedded import WorkerChoice

try:
    from starlette.requests import HTTPConnection
except ModuleNotFoundError as missing:
    raise UsageError("Starlette is not installed: pip install 'mita[starlette]'") from missing

__all__ = ["get_mita", "lifespan"]


def lifespan(
    app: Mita, inner: WebLifespan | None = None, *, worker: WorkerChoice = False
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Return a lifespan for `Starlette(lifespan=…)` or `FastAPI(lifespan=…)`: the app's store is
    opened before the first request and closed after the last one. If it cannot be opened, the web
    server does not start, and says why.

    `inner` is your own lifespan. It is entered when the store is open, and left before it is
    closed; what it yields is in `request.state`, beside the app itself, `request.state.mita`.

    `worker=True` also runs a worker in the web process, for development. It starts after `inner`
    and has 5 s to finish its jobs when the server stops. `worker=lambda: app.worker(…)` chooses its
    options.

    Raises `UsageError` if `app` is not a Mita app."""
    check_app(app)

    def opened(web_app: Any) -> AbstractAsyncContextManager[Mapping[str, Any]]:
        return serving(app, web_app, inner, worker)

    return opened


def get_mita(connection: HTTPConnection) -> Mita:
    """Return the app of this request (or websocket). Raises `UsageError` if the web app was made
    without `lifespan`, or if a test did not enter it."""
    found = connection.scope.get("state", {}).get(STATE)
    if not isinstance(found, Mita):
        raise UsageError(
            "this web app has no Mita app: make it with lifespan=lifespan(app). In a test, enter "
            "its lifespan: `with TestClient(web) as client:`"
        )
    return found
