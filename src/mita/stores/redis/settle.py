"""Ending claims. Settlements travel in groups, as `lua/settle_and_claim.lua` reads them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from mita.errors import Rejected
from mita.model.job import Claim, State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Wait, When
from mita.stores.shared.apart import named, settle_apart

from .codec import as_job, pack_back, pack_verdict
from .connection import MaybeDone
from .context import RedisContext, parts
from .scripting.constants import CALL_ITEMS


async def settle(context: RedisContext, settlements: Sequence[Settlement]) -> list[bool]:
    """Settle claims in as few calls as possible; on a cluster one call reaches one queue. Returns
    False for a stale token. Raises `Rejected` if the server refuses some of them."""
    took = [True] * len(settlements)
    rejected: dict[int, str] = {}
    for positions in _calls(context, settlements):
        some = [settlements[position] for position in positions]
        try:
            answers = await settle_apart(partial(settle_in_one_call, context), some)
        except Rejected as error:
            answers = error.took
            rejected |= {positions[at]: why for at, why in error.rejected.items()}
        for position, answer in zip(positions, answers, strict=True):
            took[position] = answer
    if rejected:
        raise named(took, rejected)
    return took


def _calls(context: RedisContext, settlements: Sequence[Settlement]) -> list[Sequence[int]]:
    by_queue: dict[str, list[int]] = {}
    for position, settlement in enumerate(settlements):
        queue = settlement.claim.queue if context.cluster else ""
        by_queue.setdefault(queue, []).append(position)
    return [part for positions in by_queue.values() for part in parts(positions)]


async def settle_in_one_call(
    context: RedisContext, settlements: Sequence[Settlement]
) -> list[bool]:
    """Settle claims that fit into one call."""
    took, _ = await call_settle_and_claim(context, settlements, [], 0, 0, "")
    return took


async def call_settle_and_claim(
    context: RedisContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
    look_at: int = CALL_ITEMS,
) -> tuple[list[bool], list[Any]]:
    """Run the script. Returns which settlements took, and the script's whole answer. `look_at` is
    how many jobs the claim may look at."""
    maybe_done = MaybeDone()
    numbers = {queue: number for number, queue in enumerate(queues, 1)}
    order, args = _grouped(settlements, numbers)
    call_number = context.call_number() if settlements else ("", "")
    answer = await context.connection.run(
        "settle_and_claim",
        [context.keys.queue(queue) for queue in numbers],
        context.now(),
        context.keys.notify_channel,
        worker,
        lease,
        limit,
        len(queues),
        look_at,
        *call_number,
        "" if context.ageing is None else context.ageing,
        *args,
        maybe_done=maybe_done,
    )
    took = [True] * len(settlements)
    stale = answer[1]
    for position in stale:
        took[order[position - 1]] = False
    if stale and maybe_done.sent_twice:
        await _look_up_stale(context, settlements, took)
    return took, answer


# The queue, the kind of the group, and what else its settlements have in common.
_GroupKey: TypeAlias = tuple[Any, ...]
_Lists: TypeAlias = tuple[list[int], list[Any]]  # positions of settlements, and their arguments


class _SettlementGroup:
    """Settlements that the script handles in the same way. Holds, by token, their positions in the
    list and their arguments."""

    __slots__ = ("arguments", "head", "positions")

    def __init__(self, *head: Any) -> None:
        self.head = head
        self.positions: dict[int, list[int]] = {}
        self.arguments: dict[int, list[Any]] = {}

    def under(self, token: int) -> _Lists:
        """New empty lists of positions and arguments for this token."""
        lists: _Lists = [], []
        self.positions[token], self.arguments[token] = lists
        return lists

    def as_args(self) -> list[Any]:
        """The group as the script reads it."""
        tokens = [part for token, mine in self.positions.items() for part in (token, len(mine))]
        many = sum(map(len, self.positions.values()))
        arguments = [one for mine in self.arguments.values() for one in mine]
        return [*self.head, len(self.positions), *tokens, many, *arguments]


class _SettlementGroups:
    """The groups of one call, in the order in which they were begun. `numbers` has the number of
    each queue in the call."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers
        self._groups: dict[_GroupKey, _SettlementGroup] = {}
        self._lists: dict[tuple[_GroupKey, int], _Lists] = {}

    def successes(self, claim: Claim, verdict: Verdict) -> _Lists:
        """The lists for plain successes like this one."""
        kind = "kept" if verdict.keep else "forgotten"
        key = claim.queue, kind, verdict.keep, verdict.told
        found = self._lists.get((key, claim.token))
        return found or self._begun(key, claim.token, pack_verdict(verdict), verdict.keep)

    def add_back(self, position: int, claim: Claim, verdict: Verdict, when: When) -> None:
        """A job that goes back to the queue (see `_goes_back`)."""
        head = pack_back(verdict, claim.priority)
        key = claim.queue, "back", head
        found = self._lists.get((key, claim.token))
        positions, arguments = found or self._begun(key, claim.token, head, 0)
        positions.append(position)
        moment = when.wait if when.at is None else when.at
        arguments += (claim.ref, moment, verdict.note, verdict.error or "", verdict.failure)

    def add_keyed(self, position: int, claim: Claim, verdict: Verdict) -> None:
        """A plain success of a job with one key (see `_has_one_key`)."""
        key = claim.queue, "keyed", verdict.told
        found = self._lists.get((key, claim.token))
        positions, arguments = found or self._begun(key, claim.token, pack_verdict(verdict), 0)
        positions.append(position)
        arguments += (claim.ref, claim.resource or claim.gates[0].key)

    def add(self, position: int, claim: Claim, verdict: Verdict) -> None:
        """Any other settlement."""
        key = claim.queue, "each"
        positions, arguments = self._lists.get((key, 0)) or self._begun(key, 0, "", 0)
        positions.append(position)
        result = b"" if verdict.result is None else b"+" + verdict.result
        arguments += (claim.id, claim.token, pack_verdict(verdict), result)

    def _begun(self, key: _GroupKey, token: int, head: bytes | str, keep: Wait) -> _Lists:
        group = self._groups.get(key)
        if group is None:
            number = self._numbers.setdefault(key[0], len(self._numbers) + 1)
            group = self._groups[key] = _SettlementGroup(number, key[1], head, keep)
        lists = self._lists[key, token] = group.under(token)
        return lists

    def as_args(self) -> tuple[list[int], list[Any]]:
        """The position of each settlement in the order of the arguments, and the arguments."""
        special = sum(key[1] in ("each", "back", "keyed") for key in self._groups)
        args: list[Any] = [len(self._groups), special]
        order: list[int] = []
        for group in self._groups.values():
            args += group.as_args()
            for positions in group.positions.values():
                order += positions
        return order, args


def _grouped(
    settlements: Sequence[Settlement], numbers: dict[str, int]
) -> tuple[list[int], list[Any]]:
    """The position of each settlement in the order of the script's arguments, and the arguments.

    Jobs that succeeded and have nothing special go in groups, which the script settles many at a
    time; so do jobs that go back to the queue. They do not depend on one another or on the rest, so
    their order does not matter. If a claim is settled twice the order does matter, and nothing is
    grouped."""
    twice = len({settlement.claim.id for settlement in settlements}) < len(settlements)
    groups = _SettlementGroups(numbers)
    last, simple, queue, token = None, False, None, 0
    for position, settlement in enumerate(settlements):
        claim, verdict = settlement.claim, settlement.verdict
        if verdict is not last:  # runs that ended alike share their verdict
            last, simple, queue = verdict, not twice and verdict.is_plain_success, None
        if (
            simple
            and claim.resource is None
            and claim.unique is None
            and not claim.gates
            and claim.ref is not None
        ):
            if claim.token != token or claim.queue != queue:  # most are like the one before
                queue, token = claim.queue, claim.token
                positions, arguments = groups.successes(claim, verdict)
            positions.append(position)
            if verdict.keep:
                arguments += (claim.ref, verdict.result)
            else:
                arguments.append(claim.id)
        elif simple and not verdict.keep and _has_one_key(claim):
            groups.add_keyed(position, claim, verdict)
        elif verdict.when is not None and not twice and _goes_back(claim, verdict):
            groups.add_back(position, claim, verdict, verdict.when)
        else:
            groups.add(position, claim, verdict)
    return groups.as_args()


def _has_one_key(claim: Claim) -> bool:
    """Whether a job has one resource key or one gate, and nothing else that its end must change."""
    keys = len(claim.gates) + (claim.resource is not None)
    return keys == 1 and claim.unique is None and claim.ref is not None


def _goes_back(claim: Claim, verdict: Verdict) -> bool:
    """Whether a job without keys and groups goes back to the queue, and nothing else happens."""
    return (
        verdict.state is State.QUEUED
        and verdict.result is None
        and verdict.hold is None
        and verdict.waits is None
        and verdict.worker is None
        and not verdict.unstarted
        and not verdict.told
        and claim.resource is None
        and claim.fair is None
        and not claim.gates
        and claim.ref is not None
    )


async def _look_up_stale(
    context: RedisContext, settlements: Sequence[Settlement], took: list[bool]
) -> None:
    """Correct `took` after the connection was cut and the call was sent twice. A settlement that is
    stale now may have been done by the first call: then the job is not running any more and still
    has this token. If the job is gone, nothing can be known, and it stays stale."""
    for position, settlement in enumerate(settlements):
        if took[position]:
            continue
        claim = settlement.claim
        [row] = await context.in_queue("find", claim.queue, claim.id)
        if row is not None:
            job = as_job(row, claim.queue, claim.id)
            took[position] = job.token == claim.token and job.state is not State.RUNNING
