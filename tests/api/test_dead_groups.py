"""Groups of failed jobs, from the failure of a handler to the act on its group."""

from typing import Any

import pytest

from mita import Abort, Answer, BulkResult, DeadGroup, Mita, Retry, UsageError
from tests.waiting import until

from .conftest import working


class Refused(Exception):
    """An error of the user's code."""


@pytest.fixture
async def groups(app: Mita) -> dict[str, DeadGroup]:
    """Jobs that failed in four ways, in groups by the name of their task and error."""

    @app.task(queue="mail", retry=Retry(max_retries=1, base=0))
    async def send(to: str, n: int) -> None:
        raise Refused(f"{to!r} refused mail {n}")

    @app.task
    async def pack(box: str) -> None:
        raise Abort(f"box {box} is full")

    @app.task(secret=True, retry=Retry(max_retries=0))
    def login(password: str) -> None:
        raise ValueError(f"{password} is wrong")

    @app.task
    async def fine() -> None: ...

    await app.enqueue_many([send.call(f"ada{n}", n) for n in range(5)])
    await app.enqueue_many([pack.call("A"), pack.call("B"), fine.call()])
    await app.enqueue_many([login.call("hunter2"), login.call("tr0ub4dor")])

    async def ended() -> bool:
        counts = (await app.counts()).values()
        return sum(one["failed"] for one in counts) == 9

    async with working(app):
        await until(ended, within=60)
    return {f"{one.task} {one.message}": one for one in await app.dead_groups()}


async def test_failures_are_grouped_by_what_they_have_in_common(
    groups: dict[str, DeadGroup],
) -> None:
    named = {name: (one.count, one.error_type, one.frame) for name, one in groups.items()}
    module = __name__
    assert named == {
        "send <text> refused mail <number>": (
            5,
            f"{module}.Refused",
            "groups.<locals>.send in test_dead_groups.py",
        ),
        "pack box A is full": (1, "mita.Abort", "groups.<locals>.pack in test_dead_groups.py"),
        "pack box B is full": (1, "mita.Abort", "groups.<locals>.pack in test_dead_groups.py"),
        "login ": (2, "ValueError", "groups.<locals>.login in test_dead_groups.py"),
    }
    assert next(iter(groups)).startswith("send"), "the largest group is the first"
    assert all(sum(one.hours) == one.count and len(one.hours) == 24 for one in groups.values())
    assert not any("hunter2" in str(one) for one in groups.values())


async def test_a_group_is_a_filter(app: Mita, groups: dict[str, DeadGroup]) -> None:
    send = next(one for one in groups.values() if one.task == "send")
    page = await app.jobs(group=send.group, limit=3)
    assert [job.group for job in page.jobs] == [send.group] * 3
    rest = await app.jobs(group=send.group, after=page.after)
    assert len(rest.jobs) == 2
    assert send.sample in {job.id for job in (*page.jobs, *rest.jobs)}
    assert (await app.jobs(group="")).jobs == ()
    record = await app.get(send.sample)
    assert record is not None
    assert (record.group, record.finished) == (send.group, send.last)
    assert [one.group for one in await app.dead_groups(queue="mail")] == [send.group]
    assert {one.task for one in await app.dead_groups(task="pack")} == {"pack"}
    assert len(await app.dead_groups(limit=1)) == 1


async def test_a_group_is_retried_as_a_whole(app: Mita, groups: dict[str, DeadGroup]) -> None:
    send = next(one for one in groups.values() if one.task == "send")
    assert await app.retry_many(group=send.group, dry_run=True) == BulkResult(5)
    done = BulkResult(5, {Answer.DONE: 5})
    assert await app.retry_many(group=send.group, after=3600) == done
    assert len(await app.dead_groups()) == 3
    login = groups["login "]
    assert await app.reschedule_many(group=login.group, after=60) == BulkResult(2, {Answer.DONE: 2})
    pack = groups["pack box A is full"]
    assert await app.delete_many(group=pack.group) == BulkResult(1, {Answer.DONE: 1})
    assert [one.message for one in await app.dead_groups()] == ["box B is full"]


@pytest.mark.parametrize("group", ["12", "X" * 16, 7, b"0" * 16, "0" * 17])
async def test_what_is_no_group_is_refused(app: Mita, group: Any) -> None:
    with pytest.raises(UsageError, match="is not the group of a failed job"):
        await app.jobs(group=group)


async def test_a_group_that_cannot_be_meant_is_refused(app: Mita) -> None:
    group = "0" * 16
    with pytest.raises(UsageError, match="Retry, reschedule or delete them"):
        await app.cancel_many(group=group)
    with pytest.raises(UsageError, match="leave state out"):
        await app.delete_many(group=group, state="succeeded")
    wrongs: list[dict[str, Any]] = [{"queue": ""}, {"task": 7}, {"limit": 0}, {"limit": 1001}]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            await app.dead_groups(**wrong)
