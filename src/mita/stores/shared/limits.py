"""What the doctor says of stored limits."""

from collections.abc import Mapping, Sequence

from mita.model.gate import StoredLimit
from mita.model.view import Finding, Health
from mita.rules.display import limit_text, times

from .views import QueueKey

NAMED_LIMITS = 5


def limits_finding(
    queues: Mapping[str, StoredLimit],
    keys: Mapping[QueueKey, StoredLimit],
    unreadable: Sequence[str] = (),
) -> Finding:
    """The stored limits of queues and keys. `unreadable` names queues and keys whose limit cannot
    be read; nothing holds their jobs back."""
    found = [f"queue {name}: {limit_text(limit)}" for name, limit in sorted(queues.items())]
    found += [
        f"key {key} of {queue}: {limit_text(limit)}" for (queue, key), limit in sorted(keys.items())
    ]
    more = f"; and {len(found) - NAMED_LIMITS} more" if len(found) > NAMED_LIMITS else ""
    text = "; ".join(found[:NAMED_LIMITS]) + more if found else "none stored"
    if not unreadable:
        return Finding("limits", text)
    names = ", ".join(unreadable[:NAMED_LIMITS])
    return Finding(
        "limits",
        f"{times(len(unreadable), 'limit')} cannot be read and does not hold: {names}; {text}",
        Health.WARN,
        "set it again with `mita limit`, or remove it with `mita limit … --none`",
    )
