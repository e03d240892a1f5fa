"""Results of steps as arguments: where they may be, and what is refused before anything is
stored."""

from typing import Any

import pytest
from msgspec import Struct

from mita import Every, Mita, Rate, UsageError
from mita.tasks.placeholders import found_in
from mita.testing import lab

DEPTH = 300  # a recursive Python function would need more frames than there are


class Parcel(Struct):
    """A value with a result in it."""

    name: str
    size: int


class Bench:
    """An app whose task records what it got."""

    def __init__(self) -> None:
        self.app = app = Mita("memory://")
        self.got: list[Any] = []

        @app.task
        async def make(n: int) -> int:
            return n

        @app.task
        async def take(value: Any, other: Any = None) -> None:
            self.got.append((value, other))

        @app.task
        async def keep(parcel: Parcel, tags: set[int]) -> None:
            self.got.append((parcel, tags))

        self.make, self.take, self.keep = make, take, keep


async def got(it: Bench, flow: Any) -> Any:
    """What the last step of the flow got."""
    async with lab(it.app) as at:
        run = await flow.enqueue()
        await at.drain()
        await run.wait(timeout=1)
    return it.got[-1]


async def test_a_result_may_be_wherever_a_value_may_be() -> None:
    it = Bench()
    flow = it.app.flow("f")
    one, two = flow.add(it.make.call(1)), flow.add(it.make.call(2))
    nested = {"a": [one.result, {"b": two.result}], "c": (one.result, 3)}
    flow.add(it.take.call(nested, flow.results([two, one])))
    assert await got(it, flow) == ({"a": [1, {"b": 2}], "c": [1, 3]}, [2, 1])


async def test_a_result_in_a_struct_and_in_a_set() -> None:
    it = Bench()
    flow = it.app.flow("f")
    one, two = flow.add(it.make.call(1)), flow.add(it.make.call(2))
    flow.add(it.keep.call(Parcel("x", one.result), {one.result, two.result}))
    assert await got(it, flow) == (Parcel("x", 1), {1, 2})


async def test_arguments_as_deep_as_those_of_a_plain_job() -> None:
    it = Bench()
    flow = it.app.flow("f")
    one = flow.add(it.make.call(7))
    deep: Any = [one.result]
    for _ in range(DEPTH):
        deep = [deep]
    flow.add(it.take.call(deep, 2**80))
    value, other = await got(it, flow)
    for _ in range(DEPTH + 1):
        [value] = value
    assert (value, other) == (7, 2**80)


def test_arguments_that_contain_themselves_beside_a_result() -> None:
    it = Bench()
    one = it.app.flow("f").add(it.make.call(7))
    loop: list[Any] = [one.result]
    loop.append(loop)
    assert len(found_in(loop)) >= 1
    with pytest.raises(UsageError, match="parameter 'value' is of type list and cannot be stored"):
        it.take.call(loop)
    loop = [[]]
    loop[0].append(loop)
    with pytest.raises(UsageError, match="parameter 'other' is of type list and cannot be stored"):
        it.take.call(one.result, loop)


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        (lambda result: {result: 1}, "result of a step cannot be a key of a dict"),
        (lambda result: [result, object()], "is of type list and cannot be stored"),
        (lambda result: [result, b"x" * 300_000], "the arguments take 300,"),
        (lambda result: [result, 2**80], "is of type list and cannot be stored"),
    ],
)
def test_arguments_that_no_step_can_have(argument: Any, says: str) -> None:
    it = Bench()
    one = it.app.flow("f").add(it.make.call(7))
    with pytest.raises(UsageError, match=says):
        it.take.call(argument(one.result))


def test_a_key_that_would_need_a_result() -> None:
    it = Bench()

    @it.app.task(resource="account:{n}:{m}")
    async def with_key(n: int, m: int = 3) -> None: ...

    @it.app.task(rate=Rate(1, per=1, key="host:{n}"))
    async def with_rate(n: int) -> None: ...

    flow = it.app.flow("f")
    one = flow.add(it.make.call(7))
    for call in (with_key.call, with_rate.call):
        with pytest.raises(UsageError, match="parameter 'n' is the result of a step, and a key of"):
            call(one.result)


def test_a_key_uses_the_defaults_of_what_was_left_out() -> None:
    it = Bench()

    @it.app.task(resource="account:{n}:{m}")
    async def with_key(text: int, n: int, m: int = 3) -> None: ...

    flow = it.app.flow("f")
    one = flow.add(it.make.call(7))
    assert with_key.call(one.result, 1).resource == "account:1:3"


async def test_only_a_flow_takes_a_result() -> None:
    it = Bench()
    one = it.app.flow("f").add(it.make.call(7))
    call = it.take.call(one.result)
    async with lab(it.app):
        for attempt in (
            lambda: it.take.enqueue(one.result),
            lambda: it.app.enqueue(call),
            lambda: it.app.enqueue_many([*(it.make.call(n) for n in range(3_000)), call]),
            lambda: it.app.repeat("r", call, Every(60)),
        ):
            with pytest.raises(UsageError, match=r"result of a step.*pass the call to flow\.add"):
                await attempt()
        assert (await it.app.jobs()).jobs == ()
        assert await it.app.repeats.all() == []


async def test_people_see_text_in_place_of_results() -> None:
    it = Bench()
    flow = it.app.flow("f")
    one, two = flow.add(it.make.call(1)), flow.add(it.make.call(2))
    flow.add(it.take.call([one.result, 2], flow.results([one, two])))
    async with lab(it.app):
        run = await flow.enqueue()
        record = await it.app.get(f"{run.id}.000003")
    assert record is not None
    assert record.arguments == {
        "value": ["<the result of a step>", 2],
        "other": "<the results of 2 steps>",
    }
