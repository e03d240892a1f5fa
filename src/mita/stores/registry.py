"""Which store a URL means.

A URL scheme leads to a *maker*: a function that takes the URL and a clock, and returns a factory.
Each call of the factory makes another handle on the same jobs. Our own schemes are in `_OURS`, one
entry for each store. Other packages add schemes with an entry point of the group `mita.stores`
whose name is the scheme and whose value is a maker.

A store and its driver are imported when the first handle is made, not before.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from mita.errors import UsageError
from mita.ports.clock import Clock, SystemClock
from mita.ports.store import StoreFactory
from mita.project import setting
from mita.settings import StoreURL

if TYPE_CHECKING:  # imported when a scheme is not one of ours
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "mita.stores"
Maker: TypeAlias = Callable[[StoreURL, Clock | None], StoreFactory]


class StoreKind(Struct, frozen=True):
    """One kind of store. `examples` has one URL for each scheme, `extra` is what pip installs its
    driver with. `check` raises `UsageError` for a URL that cannot be right."""

    examples: tuple[str, ...]
    make: Maker
    extra: str = ""
    check: Callable[[StoreURL], None] = lambda _: None

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes of its URLs."""
        return tuple(example.split("://")[0] for example in self.examples)


def parse_url(url: str | None = None, namespace: str | None = None) -> StoreURL:
    """Parse `url`, else that of the settings (`StoreURL.parse`), and check that its scheme is
    known. Raises `UsageError` for a URL that no store can use."""
    try:
        parsed = StoreURL.parse(url, namespace)
        if (ours := _SCHEMES.get(parsed.scheme)) is not None:
            ours.check(parsed)
        elif _installed(parsed.scheme) is None:
            raise _unknown_scheme(parsed)
    except UsageError as error:
        if url or (found := setting("url")) is None:
            raise
        raise UsageError(f"{found.source}: {error}") from error
    return parsed


def store_factory(url: StoreURL, clock: Clock | None) -> StoreFactory:
    """Return a factory for this URL. Its stores use `clock` instead of their own if one is given.
    Raises `UsageError` if the scheme is unknown or its driver is not installed."""
    ours = _SCHEMES.get(url.scheme)
    if ours is None:
        return _load_maker(url)(url, clock)
    try:
        return ours.make(url, clock)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{url.scheme}:// needs a driver that is not installed ({error}): "
            f"pip install 'mita[{ours.extra}]'"
        ) from error


# ---------------------------------------------------------------- the stores of other packages


def _installed(scheme: str) -> "EntryPoint | None":
    from importlib.metadata import entry_points

    return next(iter(entry_points(group=ENTRY_POINTS, name=scheme)), None)


def _load_maker(url: StoreURL) -> Maker:
    found = _installed(url.scheme)
    if found is None:
        raise _unknown_scheme(url)
    try:
        maker: Maker = found.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"{url.scheme}:// is the entry point {found.value!r} of the group {ENTRY_POINTS!r}, "
            f"which cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return maker


def _unknown_scheme(url: StoreURL) -> UsageError:
    from importlib.metadata import entry_points

    examples = [example for kind in _OURS for example in kind.examples]
    examples += [f"{name}://…" for name in sorted(entry_points(group=ENTRY_POINTS).names)]
    return UsageError(
        f"store URL {url.shown!r}: unknown scheme {url.scheme!r}; use one of {', '.join(examples)}"
    )


# ---------------------------------------------------------------- our own stores


def _sqlite(url: StoreURL, clock: Clock | None) -> StoreFactory:
    from mita.stores.sqlite import SqliteStore

    path = url.path.absolute()  # now: the process may change its directory later
    return lambda: SqliteStore(path, url.namespace, clock)


def _memory(_: StoreURL, clock: Clock | None) -> StoreFactory:
    from mita.stores.memory import MemoryState, MemoryStore

    state = MemoryState()
    return lambda: MemoryStore(state, clock or SystemClock())


def _postgres(url: StoreURL, clock: Clock | None) -> StoreFactory:
    from mita.stores.postgres import PostgresStore

    return lambda: PostgresStore(url.text, namespace=url.namespace, clock=clock)


def _redis(url: StoreURL, clock: Clock | None) -> StoreFactory:
    from mita.stores.redis import RedisStore

    return lambda: RedisStore(url.text, namespace=url.namespace, clock=clock)


def _nats(url: StoreURL, clock: Clock | None) -> StoreFactory:
    from mita.stores.nats import parse

    return lambda: parse(url.text, url.namespace, clock)


def _check_path(url: StoreURL) -> None:
    url.path  # noqa: B018  (it raises if the URL names no file)
    _check_no_parameters(url)


def _check_no_parameters(url: StoreURL) -> None:
    if "?" in url.text:
        name = min(part.split("=")[0] for part in url.text.split("?", 1)[1].split("&"))
        raise UsageError(
            f"store URL {url.shown!r}: unknown parameter {name!r}; the only one is namespace"
        )


_OURS = (
    StoreKind(("sqlite:///jobs.db",), _sqlite, check=_check_path),
    StoreKind(("memory://",), _memory, check=_check_no_parameters),
    StoreKind(("postgresql://…", "postgres://…"), _postgres, "postgres"),
    StoreKind(("redis://…", "rediss://…", "unix://…", "redis+cluster://…"), _redis, "redis"),
    StoreKind(("nats://…", "tls://…"), _nats, "nats"),
)
_SCHEMES = {scheme: kind for kind in _OURS for scheme in kind.schemes}
