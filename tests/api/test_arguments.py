"""Arguments are bound, checked and packed in the caller's process, and unpacked as the handler's
annotations say."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial, wraps
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest

from mita import Job, Reschedule, UsageError
from mita.tasks import Arguments


@dataclass
class Address:
    street: str
    number: int = 1


class Money(msgspec.Struct, frozen=True):
    cents: int


class Stranger:
    """A type that cannot be stored."""


def through(fn: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    arguments = Arguments("it", fn)
    return arguments.unpack(arguments.pack(args, kwargs))


def refused(fn: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(UsageError) as caught:
        through(fn, *args, **kwargs)
    return str(caught.value)


def test_every_value_is_unpacked_as_it_was_annotated() -> None:
    def fn(
        a: datetime,
        b: UUID,
        c: Decimal,
        d: bytes,
        e: Address,
        f: Money,
        g: timedelta,
        h: date,
        i: set[int],
        j: tuple[int, str],
    ) -> None: ...

    values = (
        datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        UUID(int=7),
        Decimal("1.10"),
        b"\x00\xff",
        Address("Main", 3),
        Money(5),
        timedelta(seconds=90),
        date(2026, 1, 2),
        {1, 2},
        (1, "x"),
    )
    assert through(fn, *values) == (values, {})


def test_arguments_by_position_and_by_name_are_stored_alike() -> None:
    def fn(a: int, b: str = "x", *, c: float, d: list[int] | None = None) -> None: ...

    arguments = Arguments("it", fn)
    assert arguments.pack((1, "y"), {"c": 2}) == arguments.pack((), {"b": "y", "a": 1, "c": 2})
    assert through(fn, 1, c=2.5) == ((1, "x"), {"c": 2.5, "d": None})


def test_parameters_without_annotation_take_plain_values() -> None:
    def fn(a, b=3): ...  # type: ignore[no-untyped-def]

    assert through(fn, {"k": [1, 2]}) == (({"k": [1, 2]}, 3), {})


def test_a_payload_is_a_map_of_only_the_arguments_that_the_caller_passed() -> None:
    def fn(a: int, b: int = 2, c: str = "x", *, d: list[int] = [1], e: float = 0.5) -> None: ...  # noqa: B006

    arguments = Arguments("it", fn)
    assert msgspec.msgpack.decode(arguments.pack((1,), {"c": "y"})) == {"a": 1, "c": "y"}
    assert msgspec.msgpack.decode(arguments.pack((1, 2), {"c": "x", "d": [1]})) == {
        "a": 1,
        "b": 2,
        "c": "x",
        "d": [1],
    }
    assert msgspec.msgpack.decode(arguments.pack((1,), {})) == {"a": 1}


def test_a_passed_argument_stays_when_a_later_version_has_another_default() -> None:
    def old(account: int, cents: int = 100, *, note: str | None = None) -> None: ...

    def new(account: int, cents: int = 250, *, note: str | None = "none") -> None: ...

    passed = Arguments("it", old).pack((1, 100), {"note": None})
    left_out = Arguments("it", old).pack((1,), {})
    assert Arguments("it", new).unpack(passed) == ((1, 100), {"note": None})
    assert Arguments("it", new).unpack(left_out) == ((1, 250), {"note": "none"})


def test_a_mutable_default_is_not_shared_between_runs() -> None:
    def fn(a: list[int] = [1]) -> None: ...  # noqa: B006

    arguments = Arguments("it", fn)
    first, second = (arguments.unpack(arguments.pack((), {}))[0][0] for _ in range(2))
    first.append(2)
    assert second == [1]


def test_a_default_may_be_anything() -> None:
    nothing = object()

    def fn(a: int, b: Any = nothing) -> None: ...

    assert through(fn, 1) == ((1, nothing), {})


def test_positional_only_parameters_are_passed_by_position() -> None:
    def fn(a: int, /, b: int) -> None: ...

    assert through(fn, 1, b=2) == ((1, 2), {})


def test_a_parameter_that_was_added_after_the_enqueue_gets_its_default() -> None:
    def old(a: int) -> None: ...

    def new(a: int, b: str = "added") -> None: ...

    assert Arguments("it", new).unpack(Arguments("it", old).pack((1,), {})) == ((1, "added"), {})


def test_an_argument_that_this_version_does_not_take_is_never_dropped() -> None:
    def new(a: int, dry_run: bool = False) -> None: ...

    def old(a: int) -> None: ...

    with pytest.raises(UsageError, match="dry_run"):
        Arguments("it", old).unpack(Arguments("it", new).pack((1,), {"dry_run": True}))


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x81\xa1a", b"\x93\x01\x02\x03", b"\x80", b"\x81\xa1a\xa1x", b"\xff"],
)
def test_a_payload_that_does_not_fit_is_a_usage_error(payload: bytes) -> None:
    def fn(a: int) -> None: ...

    with pytest.raises(UsageError, match="stored arguments do not fit task 'it'"):
        Arguments("it", fn).unpack(payload)


# ---------------------------------------------------------------- what does not fit


def send(
    to: str, times: int, *, tags: list[str] | None = None, address: Address | None = None
) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        (("a",), {}, ["'it'", "missing", "'times'", "(to: str, times: int"]),
        ((), {}, ["missing", "'to'"]),
        (("a", 1, ["x"]), {}, ["too many positional", "(to: str"]),
        (("a", 1), {"oops": 1}, ["unexpected", "'oops'", "(to: str"]),
        (("a", 1), {"to": "b"}, ["multiple values", "'to'"]),
        (("a", "b"), {}, ["parameter 'times'", "`int`", "`str`"]),
        ((None, 1), {}, ["parameter 'to'", "`str`", "got"]),
        (("a", True), {}, ["parameter 'times'", "`int`", "`bool`"]),
        (("a", 1), {"tags": ["x", 3]}, ["parameter 'tags'", "`str`", "`int`", "[1]"]),
        (("a", 1), {"address": {"street": 5}}, ["parameter 'address'", "`str`", "street"]),
        (("a", Stranger()), {}, ["parameter 'times'", "Stranger", "cannot be stored"]),
        (("\ud800", 1), {}, ["parameter 'to'", "cannot be stored"]),
        (("a", 1), {"tags": [lambda: 1]}, ["parameter 'tags'", "cannot be stored", "dataclasses"]),
    ],
)
def test_a_wrong_argument_is_refused_by_name(
    args: tuple[Any, ...], kwargs: dict[str, Any], says: list[str]
) -> None:
    message = refused(send, *args, **kwargs)
    for part in says:
        assert part in message


def test_constraints_in_annotations_are_checked() -> None:
    def fn(percent: Annotated[int, msgspec.Meta(ge=0, le=100)]) -> None: ...

    assert "parameter 'percent'" in refused(fn, 101)


def test_arguments_that_contain_themselves_are_refused() -> None:
    def fn(a: Any) -> None: ...

    loop: list[Any] = []
    loop.append(loop)
    assert "parameter 'a'" in refused(fn, loop)


def test_too_large_a_payload_is_refused_with_size_limit_and_the_largest_part() -> None:
    def fn(small: int, big: str) -> None: ...

    arguments = Arguments("it", fn)
    fits = 1000 - len(arguments.pack((1, "x" * 900), {})) + 900
    arguments.pack((1, "x" * fits), {}, limit=1000)
    with pytest.raises(UsageError) as caught:
        arguments.pack((1, "x" * (fits + 1)), {}, limit=1000)
    for part in ("1,001", "1,000", "'big'", "payload_limit"):
        assert part in str(caught.value)


# ---------------------------------------------------------------- functions that cannot be tasks


def test_star_parameters_are_refused_at_registration() -> None:
    with pytest.raises(UsageError, match=r"\*names.*one list"):
        Arguments("it", lambda *names: None)
    with pytest.raises(UsageError, match=r"\*\*more.*one dict"):
        Arguments("it", lambda **more: None)


def takes_a_stranger(a: int, b: Stranger) -> None: ...


def takes_strangers(a: int, b: list[dict[str, Stranger]]) -> None: ...


def takes_two_texts(a: "str | UUID") -> None: ...


def takes_the_undefined(a: "Undefined") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (takes_a_stranger, ["'b'", "Stranger", "Structs"]),
        (takes_strangers, ["'b'", "Stranger"]),
        (takes_two_texts, ["'a'", "str-like"]),
        (takes_the_undefined, ["'a'", "Undefined", "top of the module"]),
    ],
)
def test_annotations_that_cannot_be_stored_are_refused_at_first_use(
    fn: Any, says: list[str]
) -> None:
    arguments = Arguments("it", fn)
    with pytest.raises(UsageError) as caught:
        arguments.prepare()
    for part in says:
        assert part in str(caught.value)


# ---------------------------------------------------------------- the job as first parameter


def test_the_first_parameter_asks_for_the_job_by_annotation_or_by_name() -> None:
    def annotated(job: Job, a: int) -> None: ...

    def as_text(j: "Job", a: int) -> None: ...

    def unresolved(j: "mita.Job", a: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def by_name(job, a: int) -> None: ...  # type: ignore[no-untyped-def]

    for fn in (annotated, as_text, unresolved, by_name):
        arguments = Arguments("it", fn)
        assert arguments.wants_job
        assert arguments.parameters == ("a",)
        assert arguments.unpack(arguments.pack((1,), {})) == ((1,), {})


def test_a_first_parameter_without_that_annotation_or_name_gets_no_job() -> None:
    def other(job: str) -> None: ...

    def later(a: int, job: Any) -> None: ...

    assert Arguments("it", other).parameters == ("job",)
    assert Arguments("it", later).parameters == ("a", "job")


def test_the_job_must_be_the_first_parameter() -> None:
    def fn(a: int, job: Job) -> None: ...

    with pytest.raises(UsageError, match="must be the first"):
        Arguments("it", fn)


def test_a_wrapped_function_keeps_its_signature() -> None:
    @wraps(send)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    assert Arguments("it", wrapped).parameters == ("to", "times", "tags", "address")
    assert through(partial(send, times=3), "a") == (
        ("a",),
        {"times": 3, "tags": None, "address": None},
    )


# ---------------------------------------------------------------- results


def gives_money() -> Money | None: ...


def gives_money_later() -> "Money | Reschedule": ...  # type: ignore[empty-body]


def gives_a_text() -> str: ...  # type: ignore[empty-body]


def gives_a_stranger() -> Stranger: ...  # type: ignore[empty-body]


def test_results_are_unpacked_by_their_annotation() -> None:
    for fn in (gives_money, gives_money_later):
        arguments = Arguments("it", fn)
        assert arguments.unpack_result(arguments.pack_result(Money(3))) == Money(3)


def test_results_without_a_usable_annotation_are_plain_values() -> None:
    arguments = Arguments("it", gives_a_stranger)
    assert arguments.unpack_result(arguments.pack_result(Money(3))) == {"cents": 3}


def test_a_result_that_no_longer_matches_is_a_plain_value() -> None:
    stored = Arguments("it", gives_a_text).pack_result("text")
    assert Arguments("it", gives_money).unpack_result(stored) == "text"


def test_a_result_that_cannot_be_stored_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'it' returned a value of type Stranger"):
        Arguments("it", gives_a_stranger).pack_result(Stranger())


def test_an_async_function_behind_a_sync_decorator_is_refused_with_the_remedy() -> None:
    async def work() -> None: ...

    with pytest.raises(UsageError, match="does a decorator hide it"):
        Arguments("it", work).pack_result(work())
