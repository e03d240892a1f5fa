"""A process of its own with a store on a file, driven line by line. Its wall clock is as wrong as a
second file says."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from mita.model.job import Claim, NewJob
from mita.model.outcome import Held, RescheduleJob
from mita.model.time import When
from mita.ports.ids import new_id
from mita.stores.sqlite import SqliteStore
from mita.stores.sqlite.file import file_clock

QUEUE = "q"


class Peer:
    """The parent's side: `peer.ask("claim")`. Whoever changes `wrong` sets the clock of all peers,
    as on one machine."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder / "jobs.db"), str(folder / "wrong")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.ask("now")

    def ask(self, what: str, **details: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([what, details]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()


class Desk:
    """The child's side: the verbs."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._held: dict[str, Claim] = {}

    async def now(self) -> int:
        return await self._store.now()

    async def enqueue(self, **when: int) -> str:
        id = new_id()
        await self._store.enqueue(
            [NewJob(id=id, task="t", queue=QUEUE, payload=b"\x80", when=When(**when))]
        )
        return id

    async def claim(self, lease: int = 60_000) -> list[str]:
        return self._took((await self._store.claim([QUEUE], 100, lease, "w")).claims)

    async def reap(self) -> list[str]:
        return self._took(await self._store.reap(100, 60_000, "w"))

    async def extend(self) -> bool:
        claims = list(self._held.values())
        return all(held is Held.HELD for held in await self._store.extend(claims, 60_000))

    async def move(self, id: str, **when: int) -> str:
        [answer] = await self._store.amend([id], RescheduleJob(When(**when)))
        return answer.value

    async def due(self, id: str) -> int:
        [job] = await self._store.find([id])
        assert job is not None
        return job.due

    def _took(self, claims: list[Claim]) -> list[str]:
        self._held |= {claim.id: claim for claim in claims}
        return [claim.id for claim in claims]


async def serve(path: Path, wrong: Path) -> None:
    right = file_clock.read_machine

    def read_machine(*, promptly: bool = False) -> file_clock.Reading:
        reading, off = right(promptly=promptly), wrong.read_text() if wrong.exists() else ""
        return replace(reading, wall=reading.wall + int(off or 0))

    file_clock.read_machine = read_machine
    store = SqliteStore(path)
    await store.open()
    desk = Desk(store)
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, details = json.loads(line)
        print(json.dumps(await getattr(desk, what)(**details)), flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
