"""A work-queue stream and one pull consumer: it requests 500 messages and acknowledges each."""

import asyncio
import time
from typing import Any

import msgspec
import nats

from .common import BATCH_JOBS, PAYLOAD, Ask, Phase, Timer

_STREAM, _SUBJECT, _CONSUMER = "RAW", "raw.bench", "raw"
_NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{_STREAM}.{_CONSUMER}"
_ANSWER_S = 10.0


def run(ask: Ask) -> dict[str, Phase]:
    return asyncio.run(_run(ask))


async def _run(ask: Ask) -> dict[str, Phase]:
    timer = Timer(ask)
    client = await nats.connect(ask.url, max_outstanding_pings=10)
    await _call(
        client,
        f"STREAM.CREATE.{_STREAM}",
        name=_STREAM,
        subjects=[_SUBJECT],
        retention="workqueue",
        storage="file",
    )
    await _singles(client, timer, ask.seconds)
    await _call(client, f"STREAM.PURGE.{_STREAM}")
    timer.begin()
    await _publish(client, ask.jobs)
    timer.end("bulk", ask.jobs)
    config = {"durable_name": _CONSUMER, "ack_policy": "explicit", "max_ack_pending": 100_000}
    await _call(
        client, f"CONSUMER.DURABLE.CREATE.{_STREAM}.{_CONSUMER}", stream_name=_STREAM, config=config
    )
    timer.begin()
    await _drain(client, ask.jobs)
    timer.end("drain", ask.jobs)
    await client.close()
    return timer.phases


async def _call(client: Any, verb: str, **body: Any) -> Any:
    answer = await client.request(
        f"$JS.API.{verb}", msgspec.json.encode(body) if body else b"", timeout=_ANSWER_S
    )
    said = msgspec.json.decode(answer.data)
    if "error" in said:
        raise RuntimeError(f"{verb}: {said['error']}")
    return said


async def _singles(client: Any, timer: Timer, seconds: float) -> None:
    timer.begin()
    until, jobs = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        await client.request(_SUBJECT, PAYLOAD, timeout=_ANSWER_S)
        jobs += 1
    timer.end("one", jobs)


async def _publish(client: Any, jobs: int) -> None:
    """Send a batch before waiting for the first answer."""
    answered = asyncio.Semaphore(0)

    async def on_message(_: Any) -> None:
        answered.release()

    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox, cb=on_message)
    out = 0
    for _ in range(jobs):
        await client.publish(_SUBJECT, PAYLOAD, reply=inbox)
        out += 1
        if out > BATCH_JOBS:
            await answered.acquire()
            out -= 1
    for _ in range(out):
        await answered.acquire()
    await subscription.unsubscribe()


async def _drain(client: Any, jobs: int) -> None:
    inbox, done, asked = client.new_inbox(), 0, 0
    finished = asyncio.Event()
    request = msgspec.json.encode({"batch": BATCH_JOBS, "expires": int(_ANSWER_S * 1e9)})

    async def on_message(message: Any) -> None:
        nonlocal done, asked
        if not message.reply:  # the end of a request that found too few messages
            return
        await client.publish(message.reply, b"")
        done += 1
        if done >= jobs:
            finished.set()
        elif asked - done < BATCH_JOBS // 2:  # the next batch is on its way before this one is done
            asked += BATCH_JOBS
            await client.publish(_NEXT, request, reply=inbox)

    await client.subscribe(inbox, cb=on_message)
    asked = BATCH_JOBS
    await client.publish(_NEXT, request, reply=inbox)
    await finished.wait()
    await client.flush()
    # bytes in the server
    while (await _call(client, f"STREAM.INFO.{_STREAM}"))["state"]["messages"]:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
