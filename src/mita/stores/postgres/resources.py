"""Resource keys: who may run, who has to wait, who is woken.

Whatever changes who holds or waits for a key has the key's advisory lock first, and looks at the
key with a statement of its own after that: so it sees all that others have done to it. Jobs without
a key know nothing of this."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from mita.model.job import Claim, WhenBusy
from mita.model.outcome import Busy
from mita.model.time import HOUR, Wait
from mita.rules.readable import SET_ASIDE_KEEP, salvaged

from .arrays import numbers, texts
from .steps import Act, Ask, Row, Rows, Step, Steps, ask
from .watermarks import Key

TOGETHER = 200  # keys locked in one transaction at most: a server has a few thousand locks for all
GIVEN_UP_KEEP = HOUR  # how long a job that was skipped or replaced can still be looked at


def lock_number(namespace: str, *parts: str) -> int:
    """PostgreSQL locks numbers. Two keys with the same one only wait for each other without
    need."""
    digest = blake2b("\0".join((namespace, *parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def lock(act: Act, keys: Iterable[Key]) -> Ask | None:
    locks = sorted({lock_number(act.namespace, *key) for key in keys})
    return ask("lock_keys", locks=numbers(locks)) if locks else None


def try_lock(act: Act, keys: Sequence[Key]) -> Ask:
    return ask("try_keys", locks=numbers(lock_number(act.namespace, *key) for key in keys))


def standing(act: Act, keys: Sequence[Key]) -> Ask:
    return ask("keys", **_columns(keys), marks=numbers(act.marks.of_keys(keys)))


def wake(act: Act, keys: Sequence[Key], mosts: Sequence[int | None]) -> Ask:
    return ask(
        "wake", **_columns(keys), mosts=numbers(mosts), marks=numbers(act.marks.of_keys(keys))
    )


def unhold(keys: Sequence[Key]) -> Ask:
    return ask("unhold", **_columns(keys))


def _columns(keys: Sequence[Key]) -> dict[str, str]:
    return {"queues": texts([queue for queue, _ in keys]), "keys": texts([key for _, key in keys])}


def note_woken(act: Act, rows: Rows) -> None:
    act.topics.update(row[0] for row in rows)


# ---------------------------------------------------------------- waking


def wake_all(act: Act, places: Sequence[Row]) -> Steps[None]:
    """Lift the holds on these keys that have run out, and let as many go on as may. A key that
    somebody else has in hand right now is left to them."""
    for start in range(0, len(places), TOGETHER):
        some: list[Key] = [(queue, key) for queue, key in places[start : start + TOGETHER]]
        [locked] = yield Step(try_lock(act, some))
        had = [key for key, (got,) in zip(some, locked, strict=True) if got]
        if had:
            answers = yield Step(unhold(had), wake(act, had, [None] * len(had)))
            note_woken(act, answers[1])
        yield Step(last=True)


# ---------------------------------------------------------------- admitting


def admit(
    act: Act, shown: list[Claim], lease: Wait, worker: str
) -> Steps[tuple[list[Claim], list[Busy]]]:
    """Of jobs with a key that a claim has shown, those that may run, taken; and the others, blocked
    or ended as they wished. Whoever is in neither list was left as he is, because somebody else has
    his key in hand."""
    places: list[Key] = list(dict.fromkeys((claim.queue, claim.resource or "") for claim in shown))
    locked, waiting, standings = yield Step(
        try_lock(act, places),
        ask("candidates", ids=texts([claim.id for claim in shown])),
        standing(act, places),
    )
    had = {key for key, (got,) in zip(places, locked, strict=True) if got}
    holders = {
        key: (count, on_hold) for key, (count, on_hold, _, _) in zip(places, standings, strict=True)
    }
    act.marks.found_keys(
        {
            key: (first, now)
            for key, (_, _, first, now) in zip(places, standings, strict=True)
            if key in had
        }
    )
    wishes, unreadable = _wishes(waiting)
    admitted: list[Claim] = []
    away: list[tuple[Claim, WhenBusy]] = []
    for claim in shown:
        key = (claim.queue, claim.resource or "")
        if key not in had or claim.id not in wishes:
            continue
        most, when_busy = wishes[claim.id]
        count, on_hold = holders[key]
        if on_hold or count >= most:
            away.append((claim, when_busy))
        else:
            holders[key] = count + 1, on_hold
            admitted.append(claim)
    answers = yield Step(
        _take(admitted, lease, worker), *_turn_away(away), set_aside(unreadable), last=True
    )
    taken = {id for (id,) in answers[0]} if admitted else set()
    busy = [Busy(claim.id, claim.task, claim.queue, wish is WhenBusy.SKIP) for claim, wish in away]
    return [claim for claim in admitted if claim.id in taken], busy


def _wishes(waiting: Rows) -> tuple[dict[str, tuple[int, WhenBusy]], list[tuple[str, str]]]:
    """Limit and wish of each job, and those whose record cannot be read, with the reason."""
    wishes: dict[str, tuple[int, WhenBusy]] = {}
    unreadable: list[tuple[str, str]] = []
    for id, most, when_busy in waiting:
        found = salvaged({"limit": most, "when_busy": when_busy})
        if found.limit == most and found.when_busy == when_busy:
            wishes[id] = most, found.when_busy
        else:
            unreadable.append((id, found.error or ""))
    return wishes, unreadable


def set_aside(unreadable: Sequence[tuple[str, str]]) -> Ask | None:
    """Make failed jobs of these, each with its reason."""
    if not unreadable:
        return None
    ids, reasons = texts([id for id, _ in unreadable]), texts([reason for _, reason in unreadable])
    return ask("set_aside", ids=ids, reasons=reasons, keep=SET_ASIDE_KEEP)


def _take(claims: list[Claim], lease: Wait, worker: str) -> Ask | None:
    if not claims:
        return None
    ids, tokens = texts([claim.id for claim in claims]), numbers(claim.token for claim in claims)
    return ask("take", ids=ids, tokens=tokens, lease=lease, worker=worker)


def _turn_away(away: list[tuple[Claim, WhenBusy]]) -> list[Ask]:
    """In the order in which they were met, because a job that replaces others must find those
    before it blocked."""
    asks: list[Ask] = []
    together: list[str] = []
    for claim, when_busy in away:
        if when_busy is WhenBusy.SKIP:
            asks.append(ask("skip", ids=texts([claim.id]), keep=GIVEN_UP_KEEP))
            continue
        if when_busy is WhenBusy.REPLACE:
            asks += _block(together)
            together = []
            asks.append(
                ask(
                    "replace",
                    queue=claim.queue,
                    key=claim.resource,
                    id=claim.id,
                    keep=GIVEN_UP_KEEP,
                )
            )
        together.append(claim.id)
    return asks + _block(together)


def _block(ids: list[str]) -> list[Ask]:
    return [ask("block", ids=texts(ids))] if ids else []
