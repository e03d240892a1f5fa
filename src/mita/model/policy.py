"""How failed runs are retried, and the other settings that are stored with a job."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec import UNSET, Struct, StructMeta, UnsetType
from msgspec.structs import force_setattr

from mita.errors import UsageError, did_you_mean

from .flow import FlowPlace
from .time import LONGEST, NOW, SECOND, When

MOST_RETRIES = 1000


Jitter: TypeAlias = Literal["full", "none", "equal", "decorrelated"]
"""How chance spreads the waits between retries: over the whole wait, not at all, over its second
half, or depending on the wait before."""


class _Named(StructMeta):
    """A base class whose fields are given by name. A wrong name, or a value without a name, raises
    an error that lists the right names."""

    if not TYPE_CHECKING:  # a type checker knows the names, and says so by itself

        def __call__(self, *args: Any, **parts: Any) -> Any:
            known = self.__struct_fields__
            if args:
                raise UsageError(
                    f"{self.__name__}{args!r}: give each part by name, "
                    f"{self.__name__}({known[0]}=…, …)"
                )
            for name in parts:
                if name not in known:
                    meant = did_you_mean(name, known) or "."
                    raise UsageError(
                        f"{self.__name__} has no part {name!r}{meant} It takes {', '.join(known)}"
                    )
            return super().__call__(**parts)


class Retry(Struct, metaclass=_Named, frozen=True, kw_only=True, omit_defaults=True):
    """How often a failed run is retried, and after which delays, in seconds.

    The delay before retry *n* is random, from 0 to `min(base · 2^(n-1), cap)` (full jitter).
    `waits` lists the delays instead; the last one repeats. `wait` is a function of (attempt, error)
    in the worker's own code: it is not stored with a job, and it replaces the other rules.
    `max_retries=0` fails at once. `max_crashes` is how often a job's worker may die."""

    max_retries: int = 3
    base: float = 0.5
    cap: float = 30.0
    jitter: Jitter = "full"
    waits: tuple[float, ...] = ()
    max_crashes: int = 3
    wait: Callable[[int, BaseException], float] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not (_is_whole(self.max_retries) and 0 <= self.max_retries <= MOST_RETRIES):
            raise UsageError(
                f"max_retries must be a whole number from 0 to {MOST_RETRIES}, not "
                f"{self.max_retries!r}"
            )
        if not (_is_whole(self.max_crashes) and self.max_crashes >= 0):
            raise UsageError(
                f"max_crashes must be a whole number, 0 or more, not {self.max_crashes!r}"
            )
        if not isinstance(self.waits, tuple | list):
            raise UsageError(
                f"waits must list the waits one by one, for example (1, 10, 60), not {self.waits!r}"
            )
        force_setattr(self, "waits", tuple(self.waits))  # whatever it was, a Retry can be hashed
        for wait in (self.base, self.cap, *self.waits):
            if not (isinstance(wait, int | float) and 0 <= wait * SECOND <= LONGEST):
                raise UsageError(
                    "base, cap and waits are seconds, 0 or more and at most a hundred years, "
                    f"not {wait!r}"
                )
        if self.jitter not in get_args(Jitter):
            raise UsageError(
                f"jitter must be one of {', '.join(get_args(Jitter))}, not {self.jitter!r}"
            )
        if self.wait is not UNSET and not callable(self.wait):
            raise UsageError(
                f"wait must be a function of (attempt, error), not {self.wait!r}; seconds go "
                "into waits"
            )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


class JobOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored with each job, so that every worker can judge its runs, even one that does not
    know its task, and every tool knows what not to show: `secret` is True, or names the secret
    arguments.

    `expires`: the job is cancelled if it does not start within so many seconds of its due time.
    `deadline`: all runs together must be over within so many seconds of the first due time, or the
    job fails. That time is the creation of the job plus `when`, the time that the enqueue gave; a
    job without a deadline does not store it. `max_reschedules`: a job that was moved so often fails
    when its handler moves it again. `pause_after`: the job was made by a repeat that is paused
    after so many failures in a row. `flow`: its place in a flow. `tags`: by which people find it.
    `metadata`: JSON that the caller gave it."""

    retry: Retry = Retry()
    timeout: float | None = None
    secret: bool | tuple[str, ...] = False
    expires: float | None = None
    deadline: float | None = None
    max_reschedules: int | None = None
    when: When = NOW
    pause_after: int | None = None
    flow: FlowPlace | None = None
    tags: tuple[str, ...] = ()
    metadata: bytes = b""
