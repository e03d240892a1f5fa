"""A store that is no part of Mita: given as `store=`, or found by its URL scheme."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mita import Mita, UsageError
from mita.stores.registry import ENTRY_POINTS, parse_url

from .example_store import ExampleStore

HERE = Path(__file__).parent
PROGRAM = """
import os
from mita import Mita

app = Mita({given})

@app.task
async def greet(name: str) -> str:
    return f"hello {{name}}"

@app.task(executor="process")
def fan_out(name: str) -> int:
    greet.enqueue_sync(name)
    return os.getpid()
"""


@pytest.fixture
def factory(tmp_path: Path) -> Callable[[], ExampleStore]:
    return lambda: ExampleStore(tmp_path / "jobs")


async def served(app: Mita) -> None:
    await asyncio.wait_for(app.worker(until_empty=True, grace=0.5).run(), 30)


async def test_an_app_works_on_a_store_of_its_users_own(factory: Any) -> None:
    app = Mita(store=factory)

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with app:
        job = await greet.enqueue("Ada")
        await served(app)
        assert await job.result(timeout=5) == "hello Ada"
        assert [reason.code for reason in await app.explain(job.id)] == ["succeeded"]
        assert await asyncio.to_thread(lambda: greet.enqueue_sync("Bo").created)


async def test_an_app_uses_such_a_store_for_a_while(factory: Any) -> None:
    app = Mita("memory://")

    @app.task
    async def greet(name: str) -> None:
        pass

    async with app.using(store=factory):
        await greet.enqueue("Ada")
        assert (await app.counts())["default"]["ready"] == 1
    assert await app.counts() == {}
    async with app.using(store=factory, create=False):
        assert (await app.counts())["default"]["ready"] == 1
    await app.close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "memory://", "store": ExampleStore}, "store= replaces the URL"),
        ({"namespace": "mine", "store": ExampleStore}, "store= replaces the URL"),
        ({"store": "example:///jobs"}, "give a function that makes a store"),
    ],
)
def test_what_contradicts_a_store_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Mita(**given)


async def test_something_that_is_no_store_is_refused() -> None:
    app = Mita(store=dict)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"store=dict returned dict, which is not a store: it has"):
        await app.counts()


def test_an_app_without_a_url_says_so(factory: Any) -> None:
    app = Mita(store=factory)
    with pytest.raises(UsageError, match="no store URL: it was given store="):
        app.url  # noqa: B018
    assert app.store_factory is factory
    assert "store=" in repr(app)


# ---------------------------------------------------------------- by its URL


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip has installed the example store."""
    folder = tmp_path_factory.mktemp("installed")
    options = "--no-deps --no-build-isolation --no-index --quiet --disable-pip-version-check"
    command = [sys.executable, "-m", "pip", "install", *options.split(), "--target", str(folder)]
    subprocess.run([*command, str(HERE)], check=True, cwd=folder, timeout=100)
    return folder


def run(installed: Path, folder: Path, *words: str) -> str:
    paths = os.pathsep.join([str(installed), str(folder)])
    ran = subprocess.run(
        [sys.executable, "-m", "mita", *words],
        env={**os.environ, "PYTHONPATH": paths, "NO_COLOR": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_a_url_finds_the_store_of_an_installed_package(installed: Path, tmp_path: Path) -> None:
    given = f'"example://{tmp_path}/jobs"'
    (tmp_path / "shop.py").write_text(PROGRAM.format(given=given))
    run(installed, tmp_path, "enqueue", "greet", "Ada", "--app", "shop:app")
    run(installed, tmp_path, "enqueue", "fan_out", "Bo", "--app", "shop:app")
    run(installed, tmp_path, "worker", "shop:app", "--until-empty")
    counts = run(installed, tmp_path, "queues", "--app", "shop:app", "--json")
    assert '"succeeded":3' in counts.replace(" ", ""), counts
    assert "example://" in run(installed, tmp_path, "doctor", "--app", "shop:app")


def test_a_handler_process_refuses_a_store_that_it_cannot_open(
    installed: Path, tmp_path: Path
) -> None:
    given = f'store=lambda: ExampleStore(Path("{tmp_path}/jobs"))'
    head = "from pathlib import Path\nfrom example_store import ExampleStore\n"
    (tmp_path / "shop.py").write_text(head + PROGRAM.format(given=given))
    run(installed, tmp_path, "enqueue", "fan_out", "Bo", "--app", "shop:app")
    said = run(installed, tmp_path, "worker", "shop:app", "--until-empty", "--max-jobs", "1")
    assert "which only the worker's own process can use" in said


def test_an_unknown_scheme_is_answered_with_the_known_ones(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"unknown scheme 'example'; use one of sqlite:///jobs.db"):
        Mita("example:///jobs")
    monkeypatch.syspath_prepend(str(installed))
    assert parse_url("example:///jobs?namespace=mine").namespace == "mine"
    with pytest.raises(UsageError, match=r"unknown scheme 'exmple'; .*, example://"):
        Mita("exmple:///jobs")


async def test_an_entry_point_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\nbroken = not_there:make\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    app = Mita("broken://")
    with pytest.raises(UsageError, match=r"'not_there:make' .* cannot be imported: Module"):
        await app.counts()
