"""The rules of gates and shares in Lua give the same numbers as those in Python."""

import json
import os
import random
from typing import Any

from mita.model.gate import MOST_HOLDERS, Gate, StoredLimit
from mita.rules import gates
from mita.rules.gates import KeyUse
from mita.rules.shares import finish_tag
from mita.stores.redis.scripting.scripts import assembled

from .servers import Server

SEED = int(os.environ.get("MITA_SEED", "1"))
SEQUENCES, STEPS = 60, 40
INTERVALS_US = (1, 7, 999, 1000, 1001, 15_000, 333_333, 1_000_000, 86_400_000_000)
BURSTS = (1, 2, 3, 20, 1000)
LIMITS = (None, 1, 2, 50)
HOUR_MS = 3_600_000
# It asks for every number of a gate, of the key's use and of the time.
DRIVER = """\
-- include keys
-- include record
-- include gates
-- include shares
local answers, g = {}, gates()
for i, case in ipairs(cjson.decode(ARGV[1])) do
  local gate = { limit = case.limit or false, interval = case.interval, burst = case.burst }
  local use = { holders = case.holders, held_until = case.held, tat = case.tat, woken = case.woken }
  local now, n = case.now, case.n
  local rate = gate.interval > 0
  answers[i] = {
    g.is_open(gate, use, now) and 1 or 0,
    rate and g.tokens(gate, use.tat, now) or -1,
    g.bounded_level(gate, use.tat, now),
    g.after_starts(gate, use.tat, now, n),
    g.given_back(use.tat, g.returned(gate, 'a' .. i, now - n, now)),
    g.given_back(use.tat, g.returned(gate, 'b' .. i, now - n, now)),
    g.given_back(use.tat, g.returned(gate, 'b' .. i, now - n, now)),
    g.next_token_at(gate, use.tat, now),
    g.to_wake(gate, use, now),
    g.next_wake_at(gate, use, now),
    g.places(gate, use.holders, use.tat, now),
    shares().finish_tag(use.tat, case.weight),
  }
end
return answers
"""


def random_cases(chance: random.Random) -> list[dict[str, Any]]:
    """The states of one key, one after the other, as claims, wake-ups and a clock change it."""
    now, use, cases = chance.randint(1, 2_000_000_000_000), KeyUse(), []
    interval_us, burst = chance.choice((0, *INTERVALS_US)), chance.choice(BURSTS)
    gate = Gate("k", chance.choice(LIMITS), interval_us, burst)
    for _ in range(STEPS):
        n = chance.randint(0, 30)
        cases.append(_case(gate, use, now, n, chance.randint(1, 1_000_000)))
        use = gates.bounded(gate, use, now)
        if gates.is_open(gate, use, now):
            use = gates.passed(gate, use, now)
        else:
            use = gates.after_waking(gate, use, now, gates.to_wake(gate, use, now) % 1000)
        if chance.random() < 0.2:  # an end, a hold, another rate
            use = KeyUse(max(0, use.holders - 1), now + chance.choice((0, 5)), use.tat_us)
            gate = Gate("k", gate.limit, chance.choice(INTERVALS_US), chance.choice(BURSTS))
        steps = (0, 0, 1, gate.interval_us // 1000, chance.randint(0, HOUR_MS), -HOUR_MS)
        now = max(1, now + chance.choice(steps))
    return cases


def _case(gate: Gate, use: KeyUse, now: int, n: int, weight: int) -> dict[str, Any]:
    return {
        "limit": gate.limit or False,
        "interval": gate.interval_us,
        "burst": gate.burst,
        "holders": use.holders,
        "held": use.held_until,
        "tat": use.tat_us,
        "woken": use.woken_us,
        "now": now,
        "n": n,
        "weight": weight,
    }


def by_python(case: dict[str, Any]) -> list[int]:
    limit = case["limit"] or None
    gate = Gate("k", limit, case["interval"], case["burst"])
    stored = StoredLimit(limit, case["interval"], case["burst"])
    use = KeyUse(case["holders"], case["held"], case["tat"], case["woken"])
    now, tat_us = case["now"], use.tat_us
    returned, claimed = gates.ReturnedTokens(now), now - case["n"]
    returned_by_key = [returned.returned_us(gate, "q", key, claimed) for key in ("a", "b", "b")]
    return [
        int(gates.is_open(gate, use, now)),
        gates.tokens(gate, tat_us, now) if gate.interval_us else -1,
        gates.bounded_level(gate, tat_us, now),
        gates.after_starts(gate, tat_us, now, case["n"]),
        *(gates.given_back(tat_us, returned_us) for returned_us in returned_by_key),
        gates.next_token_at(gate, tat_us, now),
        gates.to_wake(gate, use, now),
        gates.next_wake_at(gate, use, now),
        gates.places(stored, use.holders, tat_us, now),
        finish_tag(tat_us, case["weight"]),
    ]


def test_lua_and_python_agree_on_every_number(server: Server) -> None:
    """I5: over random sequences of claims, wake-ups, changed rates and clocks that go back."""
    chance = random.Random(SEED)
    cases = [case for _ in range(SEQUENCES) for case in random_cases(chance)]
    text = assembled(DRIVER)
    with server.client() as client:
        for start in range(0, len(cases), 500):
            part = cases[start : start + 500]
            answers = client.eval(text, 0, json.dumps(part))
            for case, answer in zip(part, answers, strict=True):
                assert answer == by_python(case), case


def test_a_gate_without_a_limit_has_places_for_all(server: Server) -> None:
    case = _case(Gate("k"), KeyUse(), 1, 1, 1000)
    with server.client() as client:
        [answer] = client.eval(assembled(DRIVER), 0, json.dumps([case]))
    assert answer[8] == answer[10] == MOST_HOLDERS
