"""What the properties of the rules are drawn from."""

from typing import Any, get_args

import msgspec
from hypothesis import strategies as st

from mita.model.ending import (
    Died,
    Ending,
    Expired,
    Interrupted,
    Lost,
    PastDeadline,
    Raised,
    Rescheduled,
    ResourceUnavailable,
    Returned,
    Stopped,
    TimedOut,
    Unknown,
    Unreadable,
)
from mita.model.job import Claim
from mita.model.policy import Jitter, JobOptions, Retry
from mita.model.time import HOUR, When

NOON = 1_893_499_200_000  # 2030-01-01 12:00 UTC
COUNTS = st.integers(0, 2000)


def packed_options(retry: Retry) -> bytes:
    return msgspec.msgpack.encode(JobOptions(retry=retry))


def claim(retry: Retry | None = None, **more: Any) -> Claim:
    fields: dict[str, Any] = {
        "id": "0" * 32,
        "token": 1,
        "at": NOON,
        "task": "send",
        "queue": "mail",
        "payload": b"",
        "options": b"" if retry is None else packed_options(retry),
        "headers": b"",
        "priority": 5,
        "due": NOON,
        "created": NOON,
    }
    return Claim(**{**fields, **more})


def claims() -> st.SearchStrategy[Claim]:
    return st.builds(
        claim,
        retry=retries(),
        attempts=COUNTS,
        reschedules=COUNTS,
        busy=COUNTS,
        interruptions=COUNTS,
        crashes=COUNTS,
        resource=st.none() | st.just("r"),
        stranded=st.none() | st.integers(NOON - 2 * HOUR, NOON),
    )


def whens() -> st.SearchStrategy[When]:
    return st.builds(When, wait=st.integers(0, HOUR)) | st.builds(
        When, at=st.integers(NOON - HOUR, NOON + HOUR)
    )


def endings() -> st.SearchStrategy[Ending]:
    return st.one_of(
        st.builds(Returned, st.binary(max_size=3)),
        st.builds(
            Raised, st.text(max_size=5), final=st.booleans(), wait=st.none() | st.integers(0, HOUR)
        ),
        st.builds(TimedOut, st.floats(0.1, 100)),
        st.builds(Rescheduled, whens()),
        st.builds(ResourceUnavailable, whens()),
        st.builds(Interrupted, st.booleans()),
        st.builds(Lost),
        st.builds(Died, st.text(max_size=5)),
        st.builds(Stopped),
        st.builds(Unreadable, st.text(max_size=5)),
        st.builds(Unknown),
        st.builds(Expired),
        st.builds(PastDeadline),
    )


def retries() -> st.SearchStrategy[Retry]:
    seconds = st.floats(0, 1_000_000)
    return st.builds(
        Retry,
        max_retries=st.integers(0, 1000),
        base=seconds,
        cap=seconds,
        jitter=st.sampled_from(get_args(Jitter)),
        waits=st.just(()) | st.lists(seconds, min_size=1, max_size=4).map(tuple),
        max_crashes=st.integers(0, 5),
    )
