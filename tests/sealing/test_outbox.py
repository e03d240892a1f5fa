"""Jobs in an outbox are encrypted before they are written to the user's database."""

import asyncio
import sqlite3
from pathlib import Path

from mita import Mita
from mita.contrib.outbox import Outbox

from .conftest import RING


async def test_a_job_is_encrypted_in_the_outbox_and_runs(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = Mita("memory://", keyring=RING, outbox=Outbox(f"sqlite:///{path}", poll=0.01))

    @app.task
    async def mail(to: str) -> str:
        return f"mailed {to}"

    async with app:
        await app.outbox.create()
        connection = sqlite3.connect(path)
        connection.execute("begin")
        job = mail.using(connection).enqueue_sync("hunter2")
        connection.commit()
        rows = str(connection.execute("select * from mita_outbox").fetchall())
        connection.close()
        assert "hunter2" not in rows
        worker = app.worker(poll=0.05)
        running = asyncio.create_task(worker.run())
        assert await job.result(timeout=20) == "mailed hunter2"
        worker.stop()
        await running
