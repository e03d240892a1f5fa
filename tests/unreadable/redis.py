"""Garbage in the hashes, sets and lists of a Redis namespace."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import redis

from mita.settings import StoreURL
from mita.stores.redis.scripting.record_layout import (
    CLIENT_FIELDS,
    HEAD_FIELDS,
    LIVE_FIELDS,
    client_defaults,
    live_defaults,
)

from .harness import ROLES, Broken, Case, some

VALUES: tuple[Any, ...] = ({}, "explode", -1, 2**63 - 1, b"\xff", 1.5, [[]], None)
BODIES = (b"\xff\xfe", b"\xc1", b"\x80", b"", b"\x91" * 2000, b"garbage")
HALF = "half of it"
NEVER = "there was none"
QUEUES = (
    "ended",
    "mail",
    "runs",
    "keys",
    "other",
    "events",
    "once-values",
    "rates",
    "held",
    "waits",
)


class RedisLayout:
    identity: frozenset[str] = frozenset()

    def __init__(self, url: str, seed: int | None = None) -> None:
        at = StoreURL.parse(url)
        self._redis = redis.Redis.from_url(at.text)
        self._root = at.namespace
        self._chance = None if seed is None else random.Random(seed)

    def _bodies(self) -> tuple[Any, ...]:
        made = (
            []
            if self._chance is None
            else [self._chance.randbytes(self._chance.randint(1, 60)) for _ in range(20)]
        )
        return (*BODIES, HALF, *made)

    def job_cases(self, role: str) -> list[Case]:
        many = 1 if self._chance is None else len(VALUES)
        turn = ROLES.index(role)
        cases = []
        for half, fields in (("jobs", (*HEAD_FIELDS, *CLIENT_FIELDS)), ("live", LIVE_FIELDS)):
            names = enumerate(fields, turn)
            cases += [
                Case(half, name, value) for at, name in names for value in some(VALUES, many, at)
            ]
        texts = ("jobs", "live", "error", "result", "progress")
        return cases + [Case(name, "body", body) for name in texts for body in self._bodies()]

    def other_cases(self) -> list[Case]:
        parts = [
            ("repeat", "specs"),
            ("repeat", "repeats"),
            ("worker", "workers"),
            ("worker", "seen"),
            ("lock", "locks"),
        ]
        parts += [
            ("queue", f"meta {name}")
            for name in ("newest", "lines", "index", "scan", "batch", "gone:5")
        ]
        parts += [("queue", f"meta {name}") for name in ("flow", "limit", "level", "virtual:5")]
        parts += [("once value", "shared"), ("unique", "unique")]
        parts += [("key", "limits"), ("key", "rates"), ("holder", "holders")]
        parts += [("turn", f"meta {name}") for name in ("flow", "virtual:5")]
        return [Case(record, part, body) for record, part in parts for body in self._bodies()]

    async def spoil(self, broken: Sequence[Broken]) -> list[Broken]:
        return [one for one in broken if self._spoil(one)]

    def _spoil(self, one: Broken) -> bool:
        queue = {
            "plain": "mail",
            "keyed": "mail",
            "running": "runs",
            "blocked": "keys",
            "ended": "ended",
            "waiting": "waits",
            "told": "steps",
        }[one.role]
        key = f"{self._root}:{{{queue}}}:{one.case.record}"
        found = self._redis.hget(key, one.id)
        assert found is None or isinstance(found, bytes)
        if one.case.field == "body":
            self._redis.hset(
                key,
                one.id,
                (found or b"?")[: len(found or b"") // 2]
                if one.case.value is HALF
                else one.case.value,
            )
            return True
        if found is None or found[:1] == b"r":  # one that was never touched, or is in a batch
            return False
        parts = msgspec.msgpack.decode(found)
        if one.case.record == "live":
            parts += list(live_defaults().values())[len(parts) :]
            parts[LIVE_FIELDS.index(one.case.field)] = one.case.value
        elif one.case.field in HEAD_FIELDS:
            parts[HEAD_FIELDS.index(one.case.field)] = one.case.value
        else:
            parts[-1] += client_defaults()[len(parts[-1]) :]
            parts[-1][CLIENT_FIELDS.index(one.case.field)] = one.case.value
        self._redis.hset(key, one.id, msgspec.msgpack.encode(parts))
        return True

    def _spoil_other(self, case: Case, name: str) -> None:
        value, root = b"\x94\x01" if case.value is HALF else case.value, self._root
        match case.record:
            case "queue" | "turn":
                self._redis.hset(f"{root}:{{{name}}}:meta", case.field.split()[1], value)
            case "unique":
                self._redis.hset(f"{root}:{{other}}:unique", name, value)
            case "key":
                self._redis.hset(f"{root}:{{rates}}:{case.field}", name, value)
            case "holder":
                self._redis.sadd(f"{root}:{{held}}:holders:{name}", value)
            case _:
                self._redis.hset(f"{root}:{{@}}:{case.field}", name, value)

    async def spoil_others(self, cases: Sequence[Case], ids: Sequence[str]) -> None:
        for n, case in enumerate(cases):
            self._spoil_other(case, f"{case.record}{n}")
        self._redis.sadd(f"{self._root}:{{@}}:queues", b"\xff\xfe")
        self._redis.zadd(f"{self._root}:{{@}}:ears", {b"\xff": 2**50})
        self._redis.hset(f"{self._root}:{{@}}:parcels", "garbage 1", b"\xc1")
        self._redis.zadd(f"{self._root}:{{@}}:promised", {"garbage 1": 1})
        for queue in QUEUES:
            root = f"{self._root}:{{{queue}}}"
            for garbage in (b"\xff", b"short", b"a handle of no job"):
                self._redis.lpush(f"{root}:ready:5", garbage)
                self._redis.zadd(f"{root}:due:5", {garbage: 1})
                self._redis.zadd(f"{root}:lease", {b"h" + garbage: 1})
                for name in ("groups_next:5", "groups_later:5", "turns:5", "group:5:x", "wakes"):
                    self._redis.zadd(f"{root}:{name}", {garbage: 1})
            self._redis.hset(f"{root}:meta", "flow", "gr")
        for key in self._redis.scan_iter(f"{self._root}:{{events}}:events:*"):
            for n, body in enumerate(BODIES):
                self._redis.lset(key, n, body)  # type: ignore[arg-type]
        for key in self._redis.scan_iter(f"{self._root}:{{*}}:runs"):
            for field in list(self._redis.hkeys(key))[:4]:
                self._redis.hset(key, field, b"\xc1")
