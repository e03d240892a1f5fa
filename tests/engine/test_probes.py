"""`/live` and `/ready` of a worker."""

import asyncio
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mita import Mita
from mita.engine import pulse
from mita.engine.pulse import Pulse
from tests.engine.outage import CutServer, outage_of
from tests.waiting import until

from .conftest import working


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def asked(port: int, path: str) -> tuple[int, str]:
    """The answer to a request, which is made on another thread."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    return await asyncio.to_thread(ask)


@pytest.mark.parametrize("how", ["health", "metrics"])
async def test_a_worker_that_works_is_live_and_ready(tmp_path: Path, how: str) -> None:
    app, port = Mita(f"sqlite:///{tmp_path}/jobs.db"), free_port()
    async with working(app, **{how: f"127.0.0.1:{port}"}):
        await until(lambda: answered(port, "/ready", 200))
        assert await asked(port, "/live") == (200, "live\n")
        assert await asked(port, "/ready") == (200, "ready\n")
        code, text = await asked(port, "/metrics")
        assert (code, "mita_" in text) == ((404, False) if how == "health" else (200, True))
    assert await asked(port, "/live") == (0, ""), "the port is free again"
    await app.close()


async def answered(port: int, path: str, code: int) -> bool:
    return (await asked(port, path))[0] == code


async def test_a_scheduler_has_the_same_probes(tmp_path: Path) -> None:
    app, port = Mita(f"sqlite:///{tmp_path}/jobs.db"), free_port()
    scheduler = app.scheduler(health=f"127.0.0.1:{port}")
    running = asyncio.create_task(scheduler.run())
    await until(lambda: answered(port, "/ready", 200))
    scheduler.stop()
    await running
    await app.close()


async def test_a_store_that_is_away_makes_a_worker_not_ready_but_never_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "STORE_ANSWER_S", 0.5)
    port = free_port()
    with outage_of("redis", tmp_path) as server:
        assert isinstance(server, CutServer)
        app = Mita(server.url)
        async with working(app, health=f"127.0.0.1:{port}", grace=0.1):
            await until(lambda: answered(port, "/ready", 200))
            server.cut()
            await until(lambda: answered(port, "/ready", 503))
            _, text = await asked(port, "/ready")
            assert text.startswith("not ready: the store ")
            assert await asked(port, "/live") == (200, "live\n")
            server.open()
            await until(lambda: answered(port, "/ready", 200))
        await app.close()


async def test_a_worker_is_live_but_not_ready_before_it_reached_its_store() -> None:
    app, port = Mita("redis://127.0.0.1:1/0"), free_port()
    async with working(app, health=f"127.0.0.1:{port}"):
        await until(lambda: answered(port, "/live", 200))
        assert await asked(port, "/ready") == (503, "not ready: the store was not reached yet\n")
    await app.close()


def test_an_event_loop_that_is_held_up_for_long_is_not_live(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulse, "LOOP_ANSWER_S", 0.05)
    go_on, made = threading.Event(), threading.Event()
    found: list[Pulse] = []

    async def main() -> None:
        found.append(Pulse(asyncio.Event()))
        made.set()
        go_on.wait()  # on purpose: nothing else runs meanwhile

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    made.wait()
    try:
        assert found[0].why_not_live() == "", "not at once"
        monkeypatch.setattr(pulse, "STUCK_AFTER_S", 0.0)
        assert "held up" in found[0].why_not_live()
    finally:
        go_on.set()
        thread.join()


def test_health_needs_no_extra(tmp_path: Path) -> None:
    program = """
import asyncio, sys
sys.modules["prometheus_client"] = None
from mita import Mita, UsageError
app = Mita("memory://")
asyncio.run(app.worker(health="127.0.0.1:0", until_empty=True).run())
try:
    app.worker(metrics="127.0.0.1:0")
except UsageError as error:
    assert "mita[metrics]" in str(error)
else:
    raise SystemExit("metrics need the extra")
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, timeout=60)
