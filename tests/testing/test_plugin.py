"""The pytest plugin, in test runs of their own: an application, its tests, and a real pytest."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from .stores import URLS

pytest_plugins = ["pytester"]

JOBS = """
import threading
from collections.abc import AsyncIterator
from typing import Annotated

from mita import Depends, Mita, Retry

app = Mita("sqlite:///real.db")
log = []

@app.lifespan
async def pool() -> AsyncIterator[str]:
    log.append("open")
    yield "pool"
    log.append("close")

@app.task(retry=Retry(max_retries=1, base=10))
async def send(to: str, pool: Annotated[str, Depends(pool)]) -> str:
    if to == "nobody":
        raise ConnectionError("no such host")
    return f"{pool}: {to}"

@app.task
def resize(image: str) -> str:
    return threading.current_thread().name
"""

TESTS = """
import jobs
import pytest
from mita.testing import Lab

def test_sync(mita_lab: Lab) -> None:
    job = jobs.resize.enqueue_sync("a.png")
    assert mita_lab.drain_sync() == 1
    assert job.result_sync() == "MainThread"
    mita_lab.assert_enqueued(jobs.resize, "a.png", count=1)

@MARK
async def test_async(mita_lab: Lab) -> None:
    assert mita_lab.enqueued() == []
    jobs.log.clear()
    job = await jobs.send.after(60).enqueue("Ada")
    mita_lab.assert_enqueued(jobs.send, "Ada", after=60)
    assert await mita_lab.advance(60) == 1
    assert await job.result() == "pool: Ada"
    with pytest.raises(ConnectionError):
        await jobs.send.enqueue("nobody")
        await mita_lab.drain()

def test_the_lifespan_has_ended_with_its_event_loop(mita_lab: Lab) -> None:
    assert jobs.log == ["open", "close"]

class TestInAClass:
    @MARK
    async def test_async(self, mita_lab: Lab, tmp_path: object) -> None:
        assert await mita_lab.drain() == 0
        assert self.__class__.__name__ == "TestInAClass"
"""


def settings(pytester: pytest.Pytester, **more: str) -> None:
    lines = [f"{name} = {value}" for name, value in {"mita_app": "jobs:app", **more}.items()]
    strict = ["addopts = --strict-config --strict-markers", "filterwarnings = error"]
    pytester.makeini("\n".join(["[pytest]", *strict, *lines]))
    pytester.makepyfile(jobs=JOBS)


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing all plugins that are installed takes longer than the tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


MITA = ("-q", "-p", "mita_pytest")
WITH_ASYNCIO = (*MITA, "-p", "pytest_asyncio.plugin")


@pytest.mark.parametrize(
    ("plugin", "mode", "mark"),
    [
        ("pytest_asyncio.plugin", "auto", ""),
        ("pytest_asyncio.plugin", "strict", "@pytest.mark.asyncio"),
        ("anyio.pytest_plugin", "", "@pytest.mark.anyio"),
    ],
    ids=["auto", "strict", "anyio"],
)
def test_it_works_with_the_plugins_for_async_tests(
    pytester: pytest.Pytester, plugin: str, mode: str, mark: str
) -> None:
    asyncio = {"asyncio_mode": mode, "asyncio_default_fixture_loop_scope": "function"}
    settings(pytester, **(asyncio if mode else {}))
    tests = TESTS.replace("@MARK", mark or "# no mark")
    backend = "\n@pytest.fixture\ndef anyio_backend() -> str:\n    return 'asyncio'\n"
    pytester.makepyfile(test_jobs=tests + ("" if mode else backend))
    done = pytester.runpytest_inprocess(*MITA, "-p", plugin)
    done.assert_outcomes(passed=4)
    assert not (pytester.path / "real.db").exists()


def test_a_run_that_does_not_use_it_does_not_import_mita() -> None:
    """pytest imports the module of the entry point, and nothing more."""
    [plugin] = entry_points(group="pytest11", name="mita")
    assert plugin.value == "mita_pytest"
    code = "import sys, mita_pytest; assert not {'mita', 'msgspec', 'asyncio'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_processes_of_xdist_share_a_database(pytester: pytest.Pytester) -> None:
    settings(pytester)
    pytester.makepyfile(
        test_jobs="""
        import jobs
        import pytest

        @pytest.mark.parametrize("n", range(8))
        def test_each(mita_lab, n: int) -> None:
            assert mita_lab.app.url.scheme == "redis"
            jobs.resize.enqueue_sync(str(n))
            assert mita_lab.drain_sync() == 1
            assert [job.arguments for job in mita_lab.enqueued()] == [{"image": str(n)}]
        """
    )
    url = URLS["redis"](pytester.path)
    more = "-p", "xdist.plugin", "-n", "2", "--mita-store-url", url
    done = pytester.runpytest_subprocess(*MITA, *more)
    assert done.parseoutcomes() == {"passed": 8}


ASYNCIO = {"asyncio_mode": "auto", "asyncio_default_fixture_loop_scope": "function"}


def test_wrong_uses(pytester: pytest.Pytester) -> None:
    settings(pytester, **ASYNCIO)
    pytester.makepyfile(
        test_jobs="""
        import jobs
        from mita.testing import lab

        def test_outside() -> None:
            jobs.resize.enqueue_sync("a.png")

        def test_sync(mita_lab) -> None:
            mita_lab.drain()

        async def test_async(mita_lab) -> None:
            mita_lab.drain()

        async def test_async_sync(mita_lab) -> None:
            mita_lab.drain_sync()

        def test_two_labs(mita_lab) -> None:
            with lab(jobs.app):
                pass

        async def test_missing(mita_lab) -> None:
            await jobs.send.enqueue("Ada")
            mita_lab.assert_enqueued(jobs.send, "Bo")

        async def test_failing(mita_lab) -> None:
            await jobs.send.enqueue("nobody")
            await mita_lab.drain()

        def test_real(tmp_path) -> None:
            with jobs.app.using_sync(f"sqlite:///{tmp_path}/jobs.db"):
                jobs.resize.enqueue_sync("a.png")
        """
    )
    done = pytester.runpytest_inprocess(*WITH_ASYNCIO, "--tb=short")
    done.assert_outcomes(failed=7, passed=1)
    for text in [
        "*uses the jobs of the app outside of a lab*take the fixture mita_lab*",
        "*this is sync code: call drain_sync()*",
        "*drain() was called without await, so it did nothing: await it.drain()*",
        "*await the method without _sync*",
        "*a test that takes mita_lab needs no lab(app)*",
        "E*no job send(to='Bo', …) was enqueued*",
        "E*raised by job * in attempt 1; the job runs again after 10 s*",
    ]:
        done.stdout.fnmatch_lines(text)
    assert not (pytester.path / "real.db").exists()


def test_it_says_how_to_name_the_app(pytester: pytest.Pytester) -> None:
    settings(pytester, mita_app="")
    pytester.makepyfile("def test_one(mita_lab): ...")
    done = pytester.runpytest_inprocess(*MITA)
    assert done.parseoutcomes() == {"errors": 1}
    done.stdout.fnmatch_lines('*mita_app = "shop.jobs:app"*')


def test_the_app_of_the_project(pytester: pytest.Pytester) -> None:
    """`[tool.mita]` names the app for commands, and so for the fixture."""
    settings(pytester, mita_app="")
    pytester.makepyprojecttoml('[tool.mita]\napp = "jobs:app"\n')
    pytester.makepyfile(test_jobs="def test_one(mita_lab): assert mita_lab.drain_sync() == 0")
    assert pytester.runpytest_inprocess(*MITA).parseoutcomes() == {"passed": 1}


def test_an_app_that_cannot_be_imported(pytester: pytest.Pytester) -> None:
    settings(pytester, mita_app="jbos:app")
    pytester.makepyfile("def test_one(): ...")
    done = pytester.runpytest_inprocess(*MITA)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines("*mita_app: cannot import 'jbos:app': there is no module 'jbos'*")


def test_fixtures_of_your_own_take_the_place_of_settings(pytester: pytest.Pytester) -> None:
    url = URLS["sqlite"](pytester.path)
    settings(pytester, mita_app="")
    pytester.makeconftest(
        f"""
        import jobs
        import pytest

        @pytest.fixture
        def mita_app():
            return jobs.app

        @pytest.fixture(scope="session")
        def mita_store_url():
            return {url!r}
        """
    )
    pytester.makepyfile(
        test_jobs="""
        import jobs

        def test_one(mita_lab) -> None:
            assert jobs.app.url.scheme == "sqlite"
            assert "lab" in jobs.app.url.path.name
        """
    )
    pytester.runpytest_inprocess(*MITA).assert_outcomes(passed=1)
    assert list(Path(pytester.path).glob("*.db*")) == []
