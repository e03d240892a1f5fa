"""What can go wrong with a file that many processes open and close."""

import sqlite3

from . import menu
from .harness import Scene, scaled
from .program import open_gate


async def test_many_processes_can_open_a_new_file_at_once(file_scene: Scene) -> None:
    """None of them meets a locked database, even if SQLite itself never waits: the lock of the
    store is enough."""
    scene = file_scene
    files, together = scaled(40, 1000), 8
    scene.url = f"sqlite:///{scene.folder}/fresh-{{n}}.db"
    openers = [
        scene.start("openers", gate="all", numbers=(0, files), ms=30, busy=0.0)
        for _ in range(together)
    ]
    open_gate(scene.gate("all"), delay=0.5)
    for opener in openers:
        assert await opener.gone(within=60 + files) == 0, scene.troubles()
    assert not scene.lines("warning"), scene.troubles()


async def test_a_process_that_ends_does_not_delete_the_log_that_others_use(
    file_scene: Scene,
) -> None:
    """I1: what is written afterwards is in the file for all processes.

    If a process opens and closes the file itself, it releases the locks that SQLite has on it in
    this process. The next process that ends then takes itself for the last one."""
    scene = file_scene
    await scene.enqueue([menu.nap(scene)])
    await scene.app.counts()  # readers have a connection of their own
    worker = scene.worker()
    await scene.finished()
    await scene.stop(worker)
    await scene.enqueue([menu.nap(scene)])
    stranger = sqlite3.connect(scene.folder / "jobs.db")
    assert stranger.execute("select count(*) from mita_jobs").fetchone() == (2,)
    stranger.close()
    other = scene.worker()
    await scene.finished()
    await scene.stop(other)
    await scene.check()
