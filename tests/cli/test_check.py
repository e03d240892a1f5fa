"""`check`: what it finds, its exit codes, and that it loads no app for a URL."""

from pathlib import Path

import pytest

from mita import Mita

from .conftest import Run


def test_a_good_project_passes_without_a_worker(mita: Run) -> None:
    mita("migrate")
    said = mita("check", "--app", "shop:app")
    assert said.code == 0
    assert "good    app      shop:app, " in said.out
    assert "warn    workers  none is alive" in said.out
    found = mita("check", "--app", "shop:app", "--json").data["findings"]
    assert [one["what"] for one in found] == ["app", "store", "workers"]


async def test_a_worker_must_be_alive_if_it_is_asked_for(shell: Run, project: Path) -> None:
    import asyncio

    app = Mita(f"sqlite:///{project}/jobs.db")

    @app.task
    async def nothing() -> None: ...

    async def check(*words: str) -> tuple[int, str]:
        said = await asyncio.to_thread(shell, "check", *words)
        return said.code, said.out

    async with app:
        assert (await check("--worker"))[0] == 1
        worker = app.worker(name="w1")
        running = asyncio.create_task(worker.run())
        while not await app.workers():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await check("--worker"))[0] == 0
        assert (await check("--worker", "w1"))[0] == 0
        code, text = await check("--worker", "w2")
        assert (code, "worker w2 is not alive; alive are w1" in text) == (1, True)
        worker.stop()
        await running


def test_an_app_that_cannot_be_imported_fails_with_exit_code_2(mita: Run, project: Path) -> None:
    (project / "broken.py").write_text("1 / 0\n")
    said = mita("check", "--app", "broken:app")
    assert said.code == 2
    assert "ZeroDivisionError" in said.out
    (project / "empty.py").write_text("from mita import Mita\napp = Mita()\n")
    said = mita("check", "--app", "empty:app")
    assert (said.code, "empty:app has no tasks" in said.out) == (2, True)


def test_tasks_that_are_declared_wrong_fail(mita: Run, project: Path) -> None:
    (project / "wrong.py").write_text(
        "from mita import Mita\napp = Mita()\n"
        "@app.task(executor='process')\ndef one(): ...\n"
        "del one\n"
        "@app.task\nasync def two(x: 'Nowhere'): ...\n"
    )
    said = mita("check", "--app", "wrong:app")
    assert said.code == 2
    assert "Nowhere" in said.out


@pytest.mark.parametrize(
    ("url", "code"),
    [("sqlite:///none.db", 3), ("redis://127.0.0.1:1/0", 3), ("what://x", 2)],
)
def test_a_store_that_is_not_there_fails(mita: Run, url: str, code: int) -> None:
    said = mita("check", "--url", url, "--timeout", "2")
    assert said.code == code
    assert not Path("none.db").exists()


def test_with_a_url_no_app_is_loaded(
    mita: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "slow.py").write_text("raise SystemExit('it was imported')\n")
    monkeypatch.setenv("MITA_APP", "slow:app")
    mita("migrate", "--url", "sqlite:///jobs.db")
    assert mita("check", "--url", "sqlite:///jobs.db").code == 0
    assert mita("check").code == 2
