"""The web server of the dashboard, for `mita web` and `mita demo --web`."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from mita.engine.stop_signals import call_on_signals
from mita.errors import UsageError

from .signals import stop_signals

CLOSE_S = 1  # for answers that are being sent when the server is stopped


def import_uvicorn() -> Any:
    """Return the module of the server. Raises `UsageError` if it is not installed."""
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise UsageError("the dashboard needs uvicorn: pip install 'mita[web]'") from None
    return uvicorn


def open_port(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0: any free one. Raises `UsageError` if the port is in
    use, or the address is none of this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(
            f"the dashboard cannot listen at {host}, port {port}: {reason}. Give another --port."
        ) from None


async def serve_until_stopped(
    site: Callable[..., Any], listener: socket.socket, log_level: str = "warning"
) -> None:
    """Serve the app until Ctrl-C or SIGTERM. Open pages do not delay the end."""
    from mita.web.live import end_streams

    uvicorn = import_uvicorn()

    class SignalFreeServer(uvicorn.Server):  # type: ignore[misc, name-defined]
        """Leaves the signals to us: it would raise them again after the end."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        def install_signal_handlers(self) -> None:  # its name until uvicorn 0.28
            return

    server = SignalFreeServer(
        uvicorn.Config(
            site,
            log_level=log_level,
            access_log=False,
            timeout_graceful_shutdown=CLOSE_S,
            server_header=False,
            forwarded_allow_ips="",
        )
    )

    def stop() -> None:
        server.should_exit = True
        end_streams()

    undo = call_on_signals(stop_signals(), stop)
    try:
        await server.serve([listener])
    finally:
        undo()
