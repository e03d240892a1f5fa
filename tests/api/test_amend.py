"""Other arguments for a job that does not run: `app.amend`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mita import Answer, Mita, Retry, UsageError
from mita.model.record import WITHHELD
from mita.rules.flow import step_id

from .conftest import working


def declare(app: Mita) -> tuple[Any, list[tuple[str, int, datetime | None]]]:
    """A task that fails for a negative number, and what it was called with."""
    seen: list[tuple[str, int, datetime | None]] = []

    @app.task(retry=Retry(max_retries=0), resource="account:{name}", unique="charge:{name}")
    async def charge(name: str, cents: int = 5, day: datetime | None = None) -> int:
        seen.append((name, cents, day))
        if cents < 0:
            raise ValueError("less than nothing")
        return cents

    return charge, seen


async def test_a_failed_job_is_corrected_and_retried(app: Mita) -> None:
    charge, seen = declare(app)
    job = await charge.enqueue("Ada", cents=-1)
    async with working(app):
        with pytest.raises(Exception, match="less than nothing"):
            await job.result(10)
        answer = await app.amend(job.id, arguments={"cents": 7}, reason="it was a refund")
        assert answer is Answer.DONE
        record = await app.get(job.id)
        assert record is not None
        assert (record.state, record.arguments) == ("failed", {"name": "Ada", "cents": 7})
        assert (record.resource, record.unique) == ("account:Ada", "charge:Ada")
        line = record.timeline[-1]
        assert (line.kind, line.note) == ("amended", "cents; it was a refund")
        assert await app.retry(job.id) is Answer.DONE
        assert await job.result(10) == 7
        assert await app.amend(job.id, arguments={"cents": 8}) is Answer.TOO_LATE
    assert seen == [("Ada", -1, None), ("Ada", 7, None)]


async def test_keys_stay_as_they_were(app: Mita) -> None:
    charge, _ = declare(app)
    job = await charge.after(60).enqueue("Ada")
    await app.amend(job.id, arguments={"name": "Bo"})
    record = await app.get(job.id)
    assert record is not None
    assert (record.resource, record.unique) == ("account:Ada", "charge:Ada")
    assert (await charge.enqueue("Ada")).id == job.id


async def test_a_value_is_stored_as_an_enqueue_would_store_it(app: Mita) -> None:
    charge, seen = declare(app)
    jobs = [await charge.after(60).enqueue(name) for name in ("Ada", "Bo")]
    day = datetime(2030, 1, 31, tzinfo=UTC)
    await app.amend(jobs[0].id, arguments={"day": day, "cents": 2**70})
    await app.amend(jobs[1].id, arguments={"day": "2030-01-31T00:00:00Z"})
    async with working(app):
        for job in jobs:
            await app.reschedule(job.id, after=0)
            await job.result(10)
    assert sorted(seen) == [("Ada", 2**70, day), ("Bo", 5, day)]


WRONG: dict[str, tuple[Any, list[str]]] = {
    "a wrong type": ({"cents": "many"}, ["task 'charge'", "parameter 'cents'", "Expected `int`"]),
    "an unknown name": ({"cent": 3}, ["no parameter 'cent'", "did you mean 'cents'?", "name, "]),
    "nothing": ({}, ["name at least one argument"]),
    "no dict": (["cents", 3], ["arguments=['cents', 3]", "give a dict"]),
    "what cannot be stored": ({"cents": object()}, ["parameter 'cents'", "cannot be stored"]),
    "too much": ({"name": "x" * 300_000}, ["the arguments take", "limit is 262,144"]),
}


@pytest.mark.parametrize("what", WRONG)
async def test_wrong_arguments_are_refused_and_nothing_is_stored(app: Mita, what: str) -> None:
    charge, _ = declare(app)
    job = await charge.after(60).enqueue("Ada")
    before = await app.get(job.id)
    given, words = WRONG[what]
    with pytest.raises(UsageError) as caught:
        await app.amend(job.id, arguments=given)
    for word in words:
        assert word in str(caught.value)
    after = await app.get(job.id)
    assert (before and before.arguments, before and before.timeline) == (
        after and after.arguments,
        after and after.timeline,
    )


async def test_arguments_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    """A parameter that was added since, and has no default, must be given too."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Mita(url) as old:

        @old.task(name="charge")
        async def charge(name: str) -> None: ...

        job = await charge.enqueue("Ada")
    async with Mita(url) as new:

        @new.task(name="charge")
        async def charge_now(name: str, cents: int) -> None: ...

        with pytest.raises(UsageError, match="missing required field `cents`"):
            await new.amend(job.id, arguments={"name": "Bo"})
        assert await new.amend(job.id, arguments={"cents": 3}) is Answer.DONE
        record = await new.get(job.id)
        assert record is not None
        assert record.arguments == {"name": "Ada", "cents": 3}


async def test_only_the_app_that_has_the_task_can_check(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    async with Mita(url) as app, Mita(url) as other:
        charge, _ = declare(app)
        job = await charge.after(60).enqueue("Ada")
        with pytest.raises(UsageError, match="'charge', which this app does not have"):
            await other.amend(job.id, arguments={"cents": 3})
        with pytest.raises(UsageError, match="no job 'nope' is in the store"):
            await app.amend("nope", arguments={"cents": 3})


async def test_a_secret_argument_can_be_changed_and_is_not_shown(app: Mita) -> None:
    seen: list[str] = []

    @app.task(secret=("token",))
    async def call(url: str, token: str) -> None:
        seen.append(token)

    job = await call.after(60).enqueue("http://x", "0ld")
    await app.amend(job.id, arguments={"token": "n3w"}, reason="it has expired")
    record = await app.get(job.id)
    assert record is not None
    assert record.arguments == {"url": "http://x", "token": WITHHELD}
    assert "n3w" not in repr(record)
    async with working(app):
        await app.reschedule(job.id, after=0)
        await job.result(10)
    assert seen == ["n3w"]


async def test_a_step_keeps_the_results_that_it_waits_for(app: Mita) -> None:
    """Only the arguments that are known are checked; the flow itself cannot be amended."""

    @app.task
    async def fetch(page: int) -> str:
        return f"page {page}"

    @app.task
    async def count(text: str, factor: int = 1) -> int:
        return len(text) * factor

    flow = app.flow("import")
    last = flow.add(count.call(flow.add(fetch.after(60).call(7)).result))
    run = await flow.enqueue()
    step = step_id(run.id, 2)
    assert await app.amend(step, arguments={"factor": 10}) is Answer.DONE
    with pytest.raises(UsageError, match="parameter 'factor': Expected `int`"):
        await app.amend(step, arguments={"factor": "ten"})
    with pytest.raises(UsageError, match="one of Mita itself"):
        await app.amend(run.id, arguments={"factor": 10})
    async with working(app):
        await app.reschedule(step_id(run.id, 1), after=0)
        assert await run.result(last, timeout=20) == 60
