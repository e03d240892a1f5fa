"""Garbage in the messages of a JetStream stream, published by another program."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from mita.model.job import DEFAULT_PRIORITY
from mita.model.repeat import Repeat
from mita.settings import StoreURL
from mita.stores.nats import parse
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import (
    LanesRecord,
    LockRecord,
    NatsJob,
    QueueRecord,
    QueueUseRecord,
    ResourceKeyRecord,
    SharedOnceRecord,
    UniqueKeyRecord,
    WorkerRecord,
)
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream.subjects import RecordKind, Subjects, token

from .harness import ROLES, Broken, Case, some

VALUES: tuple[Any, ...] = ({}, "explode", -1, 2**63 - 1, b"\xff", 1.5, [[]])
BODIES = (b"\xff\xfe", b"\xc1", b"\x80", b"\x90", b"\x91" * 2000, b'{"id": 1}')
HALF = "half of it"
KINDS = (RecordKind.RESOURCE_KEY, RecordKind.WAITER, RecordKind.CLAIM_LIST, RecordKind.WAKE)
OTHERS: dict[str, Any] = {
    "queue": QueueRecord,
    "repeat": Repeat,
    "worker": WorkerRecord,
    "unique": UniqueKeyRecord,
    "lock": LockRecord,
    "once value": SharedOnceRecord,
    "limit": QueueUseRecord,
    "key": ResourceKeyRecord,
    "lanes": LanesRecord,
}


class NatsLayout:
    identity: frozenset[str] = frozenset()

    def __init__(self, url: str, seed: int | None = None) -> None:
        self._url = url
        self._chance = None if seed is None else random.Random(seed)

    def _bodies(self) -> tuple[Any, ...]:
        made = (
            []
            if self._chance is None
            else [self._chance.randbytes(self._chance.randint(1, 60)) for _ in range(20)]
        )
        return (*BODIES, HALF, *made)

    def _cases(self, record: str, kind: Any, turn: int) -> list[Case]:
        many = 1 if self._chance is None else len(VALUES)
        names = list(enumerate(kind.__struct_fields__, turn))
        cases = [
            Case(record, name, value) for at, name in names for value in some(VALUES, many, at)
        ]
        return cases + [Case(record, "body", body) for body in self._bodies()]

    def job_cases(self, role: str) -> list[Case]:
        return self._cases("job", NatsJob, ROLES.index(role))

    def other_cases(self) -> list[Case]:
        return [case for name, kind in OTHERS.items() for case in self._cases(name, kind, 0)]

    async def spoil(self, broken: Sequence[Broken]) -> list[Broken]:
        async with opened(self._url) as context:
            where = {token(one.id): one for one in broken}
            found: dict[str, Any] = {}
            asked = [context.subjects.any_of_id(one.id) for one in broken]
            for message in sorted(
                await context.reader.last(asked), key=lambda message: message.seq
            ):
                if message.body:
                    found[message.subject.rsplit(".", 1)[1]] = message  # the newest is what counts
            messages = [
                OutMessage(found[at].subject, spoilt(found[at].body, one.case, NatsJob))
                for at, one in where.items()
            ]
            await context.wire.store(messages)
        return list(broken)

    async def spoil_others(self, cases: Sequence[Case], ids: Sequence[str]) -> None:
        async with opened(self._url) as context:
            messages = []
            for n, case in enumerate(cases):
                subject = _subject(context.subjects, case.record, f"{case.record}{n}")
                if found := await context.reader.one(subject):
                    messages.append(
                        OutMessage(subject, spoilt(found.body, case, OTHERS[case.record]))
                    )
            # keys, those who wait for them, and lists of what was claimed together
            for kind in KINDS:
                there = await context.reader.all(context.subjects.all(kind))
                garbage = zip([one for one in there if one.body], self._bodies(), strict=False)
                messages += [
                    OutMessage(one.subject, one.body[:5] if body is HALF else body)
                    for one, body in garbage
                ]
            await context.wire.store(messages)


def spoilt(body: bytes, case: Case, kind: Any) -> bytes:
    if case.field == "body":
        return body[: len(body) // 2] if case.value is HALF else bytes(case.value)
    record = msgspec.msgpack.decode(body)
    if isinstance(record, dict):
        record[case.field] = case.value
    else:
        record += [None] * len(kind.__struct_fields__)
        record[kind.__struct_fields__.index(case.field)] = case.value
    return msgspec.msgpack.encode(record)


def _subject(subjects: Subjects, record: str, name: str) -> str:
    if record == "unique":
        return subjects.unique("other", name)
    if record == "once value":
        return subjects.shared_once(name)
    if record == "limit":
        return subjects.queue_use(name)
    if record == "key":
        return subjects.resource_key("rates", name)
    if record == "lanes":
        return subjects.lanes(name, DEFAULT_PRIORITY)
    return str(getattr(subjects, record)(name))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[NatsContext]:
    at = StoreURL.parse(url)
    store = parse(at.text, at.namespace, None)
    await store.open()
    yield store.context
    await store.close()
