"""Every type that can be stored is returned unchanged, as an argument and as a result; wrong
values are refused by the name of their parameter."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, PositiveInt, SecretStr
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mita import JobFailed, Mita, UsageError
from mita.tasks import Arguments

from .conftest import working

BIG = 2**70


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Odd(Enum):
    HALF = 1.5
    PAIR = (1, 2)


class Order(BaseModel):
    id: int
    at: datetime
    file: Path
    tags: set[str] = set()


class Refund(BaseModel):
    order: int
    reason: str


class Exact(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    pair: tuple[int, int]


class Aliased(BaseModel):
    name: str = Field(alias="NAME")


class Login(BaseModel):
    password: SecretStr


@pydantic_dataclass
class Page:
    number: PositiveInt


@dataclass
class Parcel:
    file: Path
    order: Order | None = None
    number: int = 0
    day: date = date(2026, 1, 1)
    tags: frozenset[str] = frozenset()
    refunds: tuple[Refund, ...] = ()
    colour: Colour = Colour.RED


class Box(msgspec.Struct):
    file: Path
    refund: Refund


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ORDER = Order(id=BIG, at=NOON, file=Path("/data/a"), tags={"new"})
REFUND = Refund(order=1, reason="late")

VALUES: list[tuple[Any, Any]] = [
    (Path, Path("/data/a b")),
    (PurePosixPath, PurePosixPath("a/b")),
    (Path | None, None),
    (Path | int, Path("a")),
    (Path | int, 3),
    (list[Path | int | None], [Path("a"), 3, None]),
    (dict[str, Path], {"a": Path("b")}),
    (Sequence[Path], [Path("a")]),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (list[Level], [Level.HIGH]),
    (Odd, Odd.PAIR),
    (dict[str, Odd | None], {"a": Odd.HALF, "b": None}),
    (Odd | str, "text"),
    (set[int], {1, 2}),
    (frozenset[str], frozenset("ab")),
    (dict[str, set[date]], {"a": {date(2026, 1, 2)}}),
    (date | None, date(2026, 1, 2)),
    (time, time(1, 2, 3)),
    (timedelta, timedelta(days=2, microseconds=5)),
    (list[Decimal], [Decimal("1.10")]),
    (int, BIG),
    (int, -BIG),
    (int, 2**64 - 1),
    (int, 2**64),
    (int, -(2**63) - 1),
    (int | str, BIG),
    (list[int], [1, BIG]),
    (dict[str, set[int]], {"a": {BIG}}),
    (Any, {"a": [BIG, b"x", NOON]}),
    (Order, ORDER),
    (Order | None, ORDER),
    (list[Order], [ORDER]),
    (dict[str, Order | None], {"a": ORDER, "b": None}),
    (Order | Refund, REFUND),
    (Order | Refund | int, 5),
    (Order | Path, ORDER),
    (Exact, Exact(at=NOON, pair=(1, 2))),
    (Aliased, Aliased(NAME="Ada")),
    (HttpUrl, HttpUrl("https://example.org/")),
    (Page, Page(number=3)),
    (PositiveInt, 3),
    (Annotated[int, Field(gt=0)], 5),
    (Parcel, Parcel(Path("a"), ORDER, BIG, tags=frozenset("x"), refunds=(REFUND,))),
    (list[Parcel] | None, [Parcel(Path("a"), refunds=(REFUND,))]),
    (Box, Box(Path("a"), REFUND)),
]


def taking(kind: Any) -> Arguments:
    def fn(value: Any) -> Any: ...

    fn.__annotations__ = {"value": kind, "return": kind}
    return Arguments("it", fn)


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_a_value_is_unchanged_as_an_argument_and_as_a_result(kind: Any, value: Any) -> None:
    arguments = taking(kind)
    [[seen], _] = arguments.unpack(arguments.pack((value,), {}))
    result = arguments.unpack_result(arguments.pack_result(value))
    assert (seen, type(seen)) == (value, type(value))
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (Path, 3, "parameter 'value': expected `str`, got `int`"),
        (list[Path], ["a", 3], "`$.value[1]`"),
        (Path | int, 1.5, "parameter 'value'"),
        (Colour, "blue", "parameter 'value': invalid enum value 'blue'"),
        (Odd, 7, "parameter 'value': invalid enum value 7"),
        (int, "1", "parameter 'value': expected `int`, got `str`"),
        (list[int], [BIG, "x"], "`$.value[1]`"),
        (
            Order,
            {"id": "x", "at": NOON, "file": "a"},
            "parameter 'value': id: Input should be a valid integer",
        ),
        (list[Order], [{"id": 1}], "at: Field required"),
        (Parcel, {"file": "a", "order": {"id": 1}}, "`$.value.order`"),
        (PositiveInt, -1, "parameter 'value': input should be greater than 0"),
        (Order | Refund, {"order": 1}, "Refund.reason: Field required"),
        (Login, Login(password=SecretStr("x")), "parameter 'value'.*SecretStr.*secret="),
        (dict[int, int], {BIG: 1}, "parameter 'value'.*beyond 64 bits.*key"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_parameter(
    kind: Any, value: Any, says: str
) -> None:
    with pytest.raises(UsageError, match=f"(?s){says.replace('[', '.').replace('$', '.')}"):
        taking(kind).pack((value,), {})


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (str | Path, "a path and a text look the same"),
        (Order | dict[str, int], "a model and another type .* look the same"),
    ],
)
def test_types_that_look_the_same_when_they_are_stored_are_refused(kind: Any, says: str) -> None:
    with pytest.raises(UsageError, match=f"parameter 'value'.*{says}"):
        taking(kind).prepare()


class Cat(BaseModel):
    name: str


class Dog(BaseModel):
    name: str


def test_a_model_that_would_be_read_as_another_is_refused() -> None:
    arguments = taking(Cat | Dog)
    arguments.pack((Cat(name="Tom"),), {})
    with pytest.raises(UsageError, match="parameter 'value': a Dog would be read as a Cat"):
        arguments.pack((Dog(name="Rex"),), {})


def test_an_argument_that_was_stored_wrong_is_refused_before_the_run() -> None:
    stored = taking(dict[str, Any]).pack(
        ({"id": "x", "at": "2026-01-02T12:00:00Z", "file": "a"},), {}
    )
    with pytest.raises(
        UsageError, match=r"stored arguments do not fit.*parameter 'value': id: Input should be"
    ):
        taking(Order).unpack(stored)


async def test_values_pass_through_a_store_and_are_shown_as_plain_values(app: Mita) -> None:
    @app.task
    async def handle(order: Order, file: Path, number: int, colour: Colour) -> Parcel:
        return Parcel(file, order, number + 1, colour=colour)

    async with working(app):
        job = await handle.enqueue(ORDER, Path("a"), BIG, Colour.RED)
        assert await job.result(10) == Parcel(Path("a"), ORDER, BIG + 1)
    record = await job.get()
    assert record is not None
    assert record.arguments == {
        "order": ORDER.model_dump(mode="json"),
        "file": "a",
        "number": BIG,
        "colour": "red",
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, "seven"), (int, None), (None, 7), (list[int], ["x"]), (Order, {"id": 1})],
)
async def test_a_result_that_does_not_match_the_annotation_fails_the_job_at_once(
    app: Mita, kind: Any, value: Any
) -> None:
    runs = 0

    async def give() -> Any:
        nonlocal runs
        runs += 1
        return value

    give.__annotations__ = {"return": kind}
    async with working(app):
        job = await app.task(give).enqueue()
        with pytest.raises(
            JobFailed, match=r"task 'give' returned a value of type .* annotation says"
        ):
            await job.result(10)
    assert runs == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (float, 1),
        (Any, "x"),
        (int | None, None),
        (tuple[int, int], [1, 2]),
        ("Unknown", "x"),
    ],
)
def test_a_result_that_matches_the_annotation_is_accepted(kind: Any, value: Any) -> None:
    def give() -> Any: ...

    give.__annotations__ = {"return": kind}
    arguments = Arguments("it", give)
    assert arguments.pack_result(value) == msgspec.msgpack.encode(value)
