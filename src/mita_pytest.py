"""The pytest plugin of Mita: the fixture `mita_lab`.

pytest imports every plugin that is installed. So this module is outside of the package `mita`: a
test run that does not use the fixture does not import Mita."""

import inspect
import sys
from collections.abc import Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from mita import Mita
    from mita.testing import Lab

_NO_APP = """\
the fixture mita_lab needs your app. Name it in pyproject.toml:

    [tool.pytest.ini_options]
    mita_app = "shop.jobs:app"

or return it from a fixture of your own in conftest.py:

    @pytest.fixture
    def mita_app():
        return app"""

_OUTSIDE = (
    "this test uses the jobs of the app outside of a lab, where they would be real: take the "
    "fixture mita_lab. For a test on a real store: `with app.using_sync(url):`, or `async with "
    "app.using(url):`"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings."""
    parser.addini("mita_app", "the app of the fixture mita_lab: module:app")
    parser.addini("mita_store_url", "the database of the fixture mita_lab; default: memory://")
    group = parser.getgroup("mita")
    group.addoption(
        "--mita-store-url",
        metavar="URL",
        help="the database of the fixture mita_lab, instead of the setting mita_store_url",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """If the setting `mita_app` names the app, refuse jobs outside of labs: they would be real."""
    if not session.config.getini("mita_app") or session.config.option.collectonly:
        return (yield)
    with _load(session.config, session.config.getini("mita_app")).using_sync(store=_refuse):
        return (yield)


def _refuse() -> NoReturn:
    from mita import UsageError

    raise UsageError(_OUTSIDE)


def _target(config: pytest.Config) -> str:
    """The app, as `module:app`, of the setting `mita_app`, `$MITA_APP` or `[tool.mita]`; empty if
    there is none."""
    from mita.project import settings

    found = settings(config.rootpath).get("app")
    return str(config.getini("mita_app") or (found.value if found is not None else ""))


def _load(config: pytest.Config, target: str) -> "Mita":
    from mita import UsageError
    from mita.cli.loading import load

    root = str(config.rootpath)
    if root not in sys.path:
        sys.path.insert(0, root)
    try:
        return load(target)
    except UsageError as error:
        raise pytest.UsageError(f"mita_app: {error}") from error


@pytest.fixture(scope="session")
def mita_app(pytestconfig: pytest.Config) -> "Mita":
    """The app that the setting `mita_app`, `$MITA_APP` or `[tool.mita]` names. Override it to
    return another."""
    target = _target(pytestconfig)
    if not target:
        pytest.fail(_NO_APP, pytrace=False)
    return _load(pytestconfig, target)


@pytest.fixture(scope="session")
def mita_store_url(pytestconfig: pytest.Config) -> str:
    """The URL of the database for labs, from `--mita-store-url` or the setting `mita_store_url`.
    Override it to return the URL of a server that your tests start."""
    chosen = pytestconfig.getoption("--mita-store-url") or pytestconfig.getini("mita_store_url")
    return str(chosen or "memory://")


@pytest.fixture
def mita_lab(
    request: pytest.FixtureRequest, mita_app: "Mita", mita_store_url: str
) -> Iterator["Lab"]:
    """A lab for this test: `mita_app`, with a clock that the test moves. In async tests await its
    methods; in sync tests call their `_sync` twins."""
    from mita.testing import lab

    with lab(mita_app, mita_store_url) as it:
        test = getattr(request.node, "obj", None)
        if inspect.iscoroutinefunction(test) and not hasattr(test, "hypothesis"):
            request.node.obj = _ended_on_its_loop(test, it)
        yield it


def _ended_on_its_loop(test: Any, it: "Lab") -> Any:
    """Return the same async test, which ends the lifespans of the lab on its own event loop. A
    fixture that is no coroutine cannot do that, and one that is a coroutine would need a certain
    plugin for async tests."""

    @wraps(test)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with it._on_this_loop():  # noqa: SLF001
            return await test(*args, **kwargs)

    return call
