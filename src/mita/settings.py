"""The settings of each part, as frozen values. They are checked once, and an error says what is
wrong and how to fix it."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from msgspec import Struct

from mita.errors import UsageError
from mita.model.policy import Retry
from mita.model.time import DAY, HOUR, SECOND, Wait
from mita.project import setting
from mita.rules.names import check_name, check_namespace
from mita.rules.when import wait

DEFAULT_URL = "sqlite:///mita.db"
DEFAULT_NAMESPACE = "mita"
_DRIVER = re.compile(
    r"^(postgres(?:ql)?|sqlite)\+\w+(://)"
)  # as SQLAlchemy writes it: postgresql+psycopg://, sqlite+aiosqlite://
_SHORTEST_LEASE_S = 0.2
AGEING_MS: Wait = 60 * SECOND  # until a ready job has risen by one priority
_SHORTEST_LOCK: Wait = SECOND // 5


class StoreURL(Struct, frozen=True):
    """Where the jobs are stored. `text` is the URL without our own parameters, as a driver takes
    it; it may contain a password."""

    scheme: str
    text: str
    namespace: str = DEFAULT_NAMESPACE

    @classmethod
    def parse(cls, url: str | None = None, namespace: str | None = None) -> "StoreURL":
        """Parse `url`, else `$MITA_URL`, else that of `[tool.mita]`, else `sqlite:///mita.db`. Any
        scheme will do. The namespace is an argument or a parameter of the URL; without a `url`
        it may be `$MITA_NAMESPACE` or that of `[tool.mita]`. Raises `UsageError` for text that is
        no URL."""
        given = url or _url_of_settings() or DEFAULT_URL
        given = _DRIVER.sub(r"\1\2", given.strip()) if isinstance(given, str) else given
        if not isinstance(given, str) or "://" not in given:
            raise UsageError(
                f"{_hide(given)!r} is not a store URL: use for example sqlite:///jobs.db, "
                "memory:// or postgresql://host/database"
            )
        parts = _split(given)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        in_url = query.pop("namespace", None)
        if not url and namespace is None and in_url is None and (found := setting("namespace")):
            namespace = found.value
        space = _one_namespace(namespace, in_url)
        return cls(parts.scheme, _unsplit(given, query), space)

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return str(_hide(self.text))

    @property
    def path(self) -> Path:
        """The file of a `sqlite` URL: three slashes for a relative path, four for an absolute one.
        Raises `UsageError` if it names none."""
        rest = self.text.removeprefix("sqlite://")
        if not rest.startswith("/") or len(rest) < 2:
            raise UsageError(
                f"store URL {self.text!r} names no file: write sqlite:///jobs.db, or "
                "sqlite:////var/jobs.db"
            )
        if rest[1:] == ":memory:":
            raise UsageError("store URL 'sqlite:///:memory:': for jobs in memory use memory://")
        return Path(unquote(rest[1:]))

    def __repr__(self) -> str:
        return f"StoreURL({_hide(self.text)!r}, namespace={self.namespace!r})"


def _url_of_settings() -> str | None:
    """The URL of `$MITA_URL` or of the project. There, a file is relative to pyproject.toml, so
    that it is the same one from every folder of the project."""
    found = setting("url")
    if found is None:
        return None
    url: str = found.value
    relative = url.removeprefix("sqlite:///")
    if found.folder is None or relative == url or relative.startswith(("/", ":memory:", "?")):
        return url
    return f"sqlite:///{quote(found.folder.as_posix())}/{relative}"


def hidden_password(url: str) -> str:
    """The URL without its password."""
    return str(_hide(url))


def _one_namespace(given: str | None, in_url: str | None) -> str:
    if given is not None and in_url is not None and given != in_url:
        raise UsageError(
            f"namespace={given!r} and ?namespace={in_url} in the URL differ: give one of them"
        )
    chosen = given if given is not None else in_url
    return DEFAULT_NAMESPACE if chosen is None else check_namespace(chosen)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise UsageError(f"store URL {_hide(url)!r} cannot be read: {error}") from error


def _unsplit(url: str, query: dict[str, str]) -> str:
    base = url.split("?", 1)[0]
    return f"{base}?{urlencode(query)}" if query else base


def _hide(url: Any) -> Any:
    """The URL without its password."""
    return re.sub(r"(//[^/@:]*):[^/]*@", r"\1:***@", url) if isinstance(url, str) else url


class Address(Struct, frozen=True):
    """A host and a port to serve at. Port 0 lets the system choose one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse `HOST:PORT`, `[::1]:PORT`, or `:PORT` for all addresses of this machine. Raises
        `UsageError` for anything else."""
        host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
        named = re.fullmatch(r"\[([^\[\]]+)\]|([^:\[\]]*)", host)
        if (
            not colon
            or named is None
            or not (port.isascii() and port.isdigit() and int(port) < 65536)
        ):
            raise UsageError(
                f"address {text!r} cannot be read: give HOST:PORT, for example 127.0.0.1:9000, "
                "or [::1]:9000 for IPv6"
            )
        # a bare port asks for it
        return cls(named[1] or named[2] or "0.0.0.0", int(port))  # noqa: S104

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class AppChoices(TypedDict, total=False):
    """What `Mita.from_settings()` takes."""

    url: str | None
    namespace: str | None
    keep: float | timedelta
    keep_failed: float | timedelta
    keep_most: int
    payload_limit: int
    retry: Retry
    ageing: float | timedelta | None


class AppSettings(Struct, frozen=True, kw_only=True):
    """Settings of all jobs of an app: how long terminal jobs are kept, how large arguments may be,
    and the default retries.

    `keep_most` is how many succeeded jobs are kept per queue, however old they are. `ageing` is how
    long a ready job waits until it has risen by one priority; None: priorities are strict."""

    keep: Wait = HOUR
    keep_failed: Wait = 30 * DAY
    keep_most: int = 10_000
    payload_limit: int = 256 * 1024
    retry: Retry = Retry()
    ageing: Wait | None = AGEING_MS

    def __post_init__(self) -> None:
        if self.payload_limit < 1:
            raise UsageError(
                f"payload_limit={self.payload_limit}: give the largest size of a job's arguments "
                "in bytes"
            )
        if self.keep_most < 0:
            raise UsageError(
                f"keep_most={self.keep_most}: give 0 or more succeeded jobs to keep per queue"
            )
        if not isinstance(self.retry, Retry):
            raise UsageError(
                f"retry={self.retry!r}: give a Retry, for example Retry(max_retries=5)"
            )

    @classmethod
    def of(
        cls,
        *,
        keep: float | timedelta,
        keep_failed: float | timedelta,
        ageing: float | timedelta | None = AGEING_MS / SECOND,
        **rest: Any,
    ) -> "AppSettings":
        """Make settings from seconds or timedeltas."""
        rise = None if ageing is None else wait("ageing", ageing)
        if rise == 0:
            raise UsageError("ageing=0: give more than 0 seconds, or None for strict priorities")
        return cls(
            keep=wait("keep", keep),
            keep_failed=wait("keep_failed", keep_failed),
            ageing=rise,
            **rest,
        )


def check_poll(poll: float) -> None:
    """Raise `UsageError` for a poll interval that is no positive duration."""
    if wait("poll", poll) < 1:
        raise UsageError(f"poll={poll!r}: give the seconds between two polls, for example 1")


def check_lock(named: str, length: float) -> None:
    """Raise `UsageError` for a scheduler lock that is too short. 0 means no lock."""
    if 0 < wait(named, length) < _SHORTEST_LOCK:
        raise UsageError(
            f"{named}={length!r}: a lock shorter than {_SHORTEST_LOCK / SECOND} s changes hands "
            "all the time; 0 switches it off, and no fire is made twice without it"
        )


class SchedulerSettings(Struct, frozen=True, kw_only=True):
    """How a standalone scheduler works; durations in seconds. `lock`: how long one of several
    schedulers fires for all of them; 0: each fires on its own."""

    lock: float = 3.0
    poll: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        if self.name:
            check_name("scheduler", self.name)
        check_lock("lock", self.lock)
        check_poll(self.poll)


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """How one worker works; durations in seconds.

    `queues=None` serves all queues except those in `exclude`. An empty `name` is replaced with host
    and process id. `schedule`: whether it fires repeats. `schedule_lock`: how long one of several
    workers fires for all of them; 0: each fires on its own. `poll` is how often it looks for jobs
    if no notification comes. `handler_processes` limits the processes for tasks with
    executor='process' (None: one for each processor), which import the app as `target`, MODULE:APP
    (None: find it). `until_empty`: end when no job is ready or running. `max_jobs`: end after this
    many runs. `verbose`: also log the jobs that succeed."""

    queues: tuple[str, ...] | None = None
    concurrency: int = 100
    lease: float = 30.0
    grace: float = 20.0
    threads: int = 16
    name: str = ""
    schedule: bool = True
    schedule_lock: float = 3.0
    poll: float = 1.0
    handler_processes: int | None = None
    target: str | None = None
    exclude: tuple[str, ...] = ()
    until_empty: bool = False
    max_jobs: int | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        self._check_queues()
        check_lock("schedule_lock", self.schedule_lock)
        if self.name:
            check_name("worker", self.name)
        for count in ("concurrency", "threads", "handler_processes", "max_jobs"):
            number = getattr(self, count)
            if number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise UsageError(
                    f"{count}={number!r}: give a whole number; a worker needs at least 1 to run "
                    "anything"
                )
        for length in ("lease", "grace", "poll"):
            wait(length, getattr(self, length))
        if self.lease < _SHORTEST_LEASE_S:
            raise UsageError(
                f"lease={self.lease!r}: a lease of less than {_SHORTEST_LEASE_S} s is lost in a "
                "short pause. It is extended while a job runs, so it need not be as long as a job"
            )
        check_poll(self.poll)

    def _check_queues(self) -> None:
        for queue in self.exclude:
            check_name("queue", queue)
        if self.queues is not None and self.exclude:
            raise UsageError(
                "queues and exclude: give the queues to serve, or the queues not to serve, "
                "but not both"
            )
        if self.queues is None:
            return
        if not self.queues:
            raise UsageError(
                "queues=[]: name at least one queue, or leave it out to serve them all"
            )
        for queue in self.queues:
            check_name("queue", queue)
        if len(set(self.queues)) < len(self.queues):
            raise UsageError(f"queues={list(self.queues)!r} names a queue twice: name each once")
