"""A dashboard that is served on a port of this machine, from a thread of its own."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from mita import Mita
from mita.web import dashboard
from tests.waiting import wait_until


@contextmanager
def served(app: Mita, **options: Any) -> Iterator[str]:
    """Serve the dashboard of `app` until the end of the block. Yields its address. `options` are
    those of `dashboard`."""
    listener = socket.create_server(("127.0.0.1", 0))
    site = dashboard(app, **options)
    config = uvicorn.Config(site, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)

    async def serve() -> None:
        try:
            await server.serve([listener])
        finally:
            await app.close()  # the store that the server has opened

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the dashboard is served")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
