"""A proxy in front of the dashboard: a small one that always runs, and nginx with the file of the
guide where it is installed."""

import asyncio
import shutil
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.waiting import wait_until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
_NGINX_FRAME = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 50; }}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port}; {text} }}
}}
"""


def _proxy(upstream: str, prefix: str, strips: bool) -> Starlette:
    async def forward(request: Request) -> StreamingResponse:
        path = request.url.path.removeprefix(prefix) if strips else request.url.path
        client = httpx.AsyncClient(timeout=60)
        headers = [(name, value) for name, value in request.headers.items() if name != "connection"]
        asked = client.build_request(
            request.method,
            f"{upstream}{path}",
            params=request.query_params,
            headers=[*headers, ("x-forwarded-for", "192.0.2.7"), ("x-forwarded-proto", "https")],
            content=await request.body(),
        )
        answer = await client.send(asked, stream=True)

        async def parts() -> AsyncIterator[bytes]:
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:
                await answer.aclose()
                await client.aclose()

        response = StreamingResponse(parts(), answer.status_code)
        response.raw_headers = list(answer.headers.raw)
        return response

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])


@contextmanager
def proxied(upstream: str, prefix: str, strips: bool) -> Iterator[str]:
    """Run a proxy before the server `upstream`, which takes the prefix away or not. Yields its
    address."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = _proxy(upstream, prefix, strips)
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@contextmanager
def nginx(text: str, folder: Path) -> Iterator[str]:
    """Run nginx with this text in its server block. Yields its address."""
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = folder / "nginx.conf"
    file.write_text(_NGINX_FRAME.format(folder=folder, port=port, text=text))
    process = subprocess.Popen([NGINX, "-p", str(folder), "-c", str(file)])
    try:

        def answers() -> bool:
            assert process.poll() is None, (folder / "error.log").read_text()
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_until(answers)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
