"""What a keyring accepts, and what it protects from: in memory."""

from typing import Any

import pytest
from msgspec.structs import replace

from mita import Every, Job, JobFailed, Keyring, Mita, Retry, UsageError
from mita.model.job import NewJob
from mita.model.outcome import SignalJob
from mita.ports.ids import new_id
from mita.rules.durable import signal_name
from mita.rules.sealed import is_sealed, key_of
from mita.sealing import SealedStore
from mita.sealing.box import SealingBox
from mita.testing import lab

from .conftest import NEW, OLD, RING


@pytest.mark.parametrize(
    ("current", "keys", "says"),
    [
        ("a", {}, "at least one key"),
        ("b", {"a": NEW}, r"no key of this id.*'a'"),
        ("a", {"a": b"short"}, "'a' must be 32 bytes.*new_key"),
        ("a", {"a": "not base64!"}, "'a' must be 32 bytes"),
        ("a", {"a": 7}, "'a' must be 32 bytes"),
        ("", {"": NEW}, "printable text of 1 to 64 bytes"),
        ("x" * 65, {"x" * 65: NEW}, "printable text of 1 to 64 bytes"),
        ("a\nb", {"a\nb": NEW}, "printable text"),
    ],
)
def test_a_wrong_keyring_is_refused(current: str, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        Keyring(current, keys)
    assert "short" not in str(refused.value)


def test_a_keyring_never_shows_its_keys() -> None:
    assert NEW not in repr(RING)
    assert "'new', 'old'" in repr(RING)


def new_app(keyring: Keyring = RING) -> Mita:
    return Mita("memory://", keyring=keyring, retry=Retry(max_retries=0))


async def behind(app: Mita) -> Any:
    """The store behind the encryption."""
    store = await app.open_store()
    assert isinstance(store, SealedStore)
    return store.behind


def sealed_for(id: str, task: str = "echo", word: bytes = b"\x81\xa4word\xa2hi") -> NewJob:
    [job] = SealingBox(RING).seal_jobs([NewJob(id=id, task=task, queue="default", payload=word)])
    return job


async def test_arguments_of_another_job_fail_the_job_and_say_why() -> None:
    """Whoever can write to the store cannot swap the arguments of two jobs."""
    app = new_app()

    @app.task
    async def echo(word: str) -> str:
        return word

    async with lab(app) as it:
        swapped = replace(sealed_for("1" * 32), id="2" * 32)
        await (await behind(app)).enqueue([swapped])
        await it.drain(raises=False)
        with pytest.raises(JobFailed, match="belongs to another job"):
            await app.result("2" * 32)


async def test_arguments_of_another_task_do_not_open() -> None:
    job = replace(sealed_for(new_id()), task="transfer")
    [claimed] = SealingBox(RING).seal_jobs([job])
    assert is_sealed(claimed.payload)
    box = SealingBox(RING)
    assert is_sealed(box.open(job.payload, ("arguments", job.id, "transfer")))
    assert not is_sealed(box.open(job.payload, ("arguments", job.id, "echo")))


async def test_a_forged_signal_is_not_accepted() -> None:
    """A plain value that someone has written into the store makes the job wait."""
    app, seen = new_app(), list[object]()

    @app.task
    async def ask(job: Job) -> None:
        seen.append(await job.wait_for("approval"))

    async with lab(app) as it:
        job = await ask.enqueue()
        await it.drain()
        await (await behind(app)).amend([job.id], SignalJob("approval", b"\xc3"))
        await it.drain()
        record = await job.get()
        assert record is not None
        assert (record.state, record.attempts, seen) == ("scheduled", 0, [])
        assert "not encrypted" in record.timeline[-1].note
        assert signal_name("approval") in await (await behind(app)).once_values(job.id)


async def test_a_debounced_job_gets_the_newest_arguments() -> None:
    """Its arguments are bound to the unique key, because they come from another enqueue."""
    app, seen = new_app(), list[str]()

    @app.task(unique="doc")
    async def index(word: str) -> None:
        seen.append(word)

    async with lab(app) as it:
        await index.options(debounce=5).enqueue("first")
        await index.options(debounce=5).enqueue("second")
        await it.advance(60)
    assert seen == ["second"]


async def test_the_same_repeat_again_changes_nothing_but_a_new_key_does() -> None:
    app, seen = new_app(), list[str]()

    @app.task
    async def tick(word: str) -> None:
        seen.append(word)

    async with lab(app) as it:
        await app.repeat("ticks", tick.call("tock"), Every(60))
        store = await behind(app)
        [first] = await store.find_repeats(["ticks"])
        assert b"tock" not in first.spec
        await app.repeat("ticks", tick.call("tock"), Every(60))
        assert await store.find_repeats(["ticks"]) == [first]
        record = await app.repeats.get("ticks")
        assert record is not None
        await it.advance(150)
        assert seen == ["tock", "tock"]
        app._pool._keyring = Keyring("newest", {"newest": bytes(32), "new": NEW})
        rotated = SealedStore(store, app._pool._keyring)
        [spec] = await rotated.find_repeats(["ticks"])
        assert spec is not None
        await rotated.put_repeat(replace(spec, cursor=None))
        [again] = await store.find_repeats(["ticks"])
        assert again.revision == first.revision + 1
        assert b"newest" in again.spec


async def test_a_retried_job_is_encrypted_once() -> None:
    """The arguments keep their bytes over retries: they are never encrypted again."""
    app = Mita("memory://", keyring=RING, retry=Retry(max_retries=3, base=1, jitter="none"))

    @app.task
    async def flaky(job: Job, word: str) -> str:
        if job.attempt < 3:
            raise ValueError(word)
        return word

    async with lab(app) as it:
        job = await flaky.enqueue("hunter2")
        store = await behind(app)
        [before] = await store.find([job.id])
        await it.advance(60, raises=False)
        [after] = await store.find([job.id])
        assert before.payload == after.payload
        assert key_of(after.payload) == "new"
        assert await job.result() == "hunter2"


async def test_what_grew_by_encryption_still_fits_or_is_refused() -> None:
    app = Mita("memory://", keyring=RING, payload_limit=100)

    @app.task
    async def echo(word: str) -> str:
        return word

    async with lab(app) as it:
        job = await echo.enqueue("x" * 80)
        await it.drain()
        assert await job.result() == "x" * 80
        with pytest.raises(UsageError, match="payload_limit"):
            await echo.enqueue("x" * 101)


def test_two_rings_of_one_key_read_each_other() -> None:
    first, second = Keyring("old", {"old": OLD}), RING
    place = ("arguments", "1", "echo")
    sealed = SealingBox(first).seal(b"\xa2hi", place)
    assert SealingBox(second).open(sealed, place) == b"\xa2hi"
    assert SealingBox(second).open(sealed[:-1] + b"\0", place) != b"\xa2hi"
