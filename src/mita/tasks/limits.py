"""What few tasks and jobs have: several keys, a rate, fair shares, debounce and throttle; tags, and
an id that the caller chose. A plain job has none of it, and pays for none of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mita.errors import UsageError
from mita.model.gate import Gate
from mita.model.job import MOST_WEIGHT_THOUSANDTHS, NORMAL_WEIGHT_THOUSANDTHS
from mita.model.limits import Key, Rate
from mita.model.time import SECOND, Wait, When
from mita.rules.labels import check_id, check_tags
from mita.rules.names import check_key, fill
from mita.rules.when import wait

MOST_RESOURCE_KEYS = 4


class LimitOptions(Struct, frozen=True, kw_only=True):
    """The limits of a task or a job, its tags, and the id that the caller chose. `keys` are the
    resource keys after the first one. The names of keys, `fair` and tags may be templates, which
    are filled from the arguments."""

    keys: tuple[Key, ...] = ()
    rate: Rate | None = None
    fair: str | None = None
    weight: int = NORMAL_WEIGHT_THOUSANDTHS
    throttle: Wait = 0
    debounce: Wait = 0
    debounce_max: Wait = 0
    tags: tuple[str, ...] = ()
    id: str | None = None

    def templates(self) -> list[tuple[str, str | None]]:
        """The templates, each with the option that has it."""
        rate = None if self.rate is None else self.rate.key
        return [
            *(("resource", key.name) for key in self.keys),
            ("rate", rate),
            ("fair", self.fair),
            *(("tags", tag) for tag in self.tags),
        ]

    def gates(self, task: str, arguments: dict[str, Any]) -> tuple[Gate, ...]:
        """The conditions of one job of this task."""
        gates = [Gate(fill("resource", key.name, arguments), key.limit) for key in self.keys]
        if self.rate is not None:
            template = self.rate.key
            name = f"task:{task}" if template is None else fill("rate", template, arguments)
            gates.append(Gate(name, None, self.rate.interval_us, self.rate.burst))
        return tuple(gates)

    def group(self, arguments: dict[str, Any]) -> str | None:
        """The group of one job, for fair shares."""
        return None if self.fair is None else fill("fair", self.fair, arguments)

    def filled_tags(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """The tags of one job, each once."""
        return tuple(dict.fromkeys(fill("tags", tag, arguments) for tag in self.tags))


NO_LIMITS = LimitOptions()


class CallLimits(Struct, frozen=True, gc=False):
    """The limits of one call, its tags and its own id, with all templates filled in."""

    gates: tuple[Gate, ...] = ()
    fair: str | None = None
    tags: tuple[str, ...] = ()
    id: str | None = None


def with_keys(choices: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Key, ...] | None]:
    """The choices with one resource key as text, and the keys after it; None if the choices name no
    resource. Keys that are given as text have the `limit` of the choices."""
    rest = dict(choices)
    if "resource" not in choices:
        return rest, None
    given = choices["resource"]
    if given is None or isinstance(given, str):
        return rest, ()
    keys = [_key(one, rest.get("limit", 1)) for one in _listed(given)]
    names = [key.name for key in keys]
    if len(keys) > MOST_RESOURCE_KEYS:
        raise UsageError(
            f"resource names {len(keys)} keys, and a job has at most {MOST_RESOURCE_KEYS}: leave "
            "some out, or join two into one, like 'account:{account}:{region}'"
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"resource names the key {twice[0]!r} twice: name each once")
    rest |= {"resource": keys[0].name, "limit": keys[0].limit}
    return rest, tuple(keys[1:])


def _listed(given: Any) -> Sequence[Any]:
    if isinstance(given, Key):
        return [given]
    if not isinstance(given, list | tuple) or not given:
        raise UsageError(
            f"resource={given!r}: give a key like 'account:{{account}}', a Key, or a list of them"
        )
    return given


def _key(given: Any, limit: int) -> Key:
    if isinstance(given, str):
        return Key(given, limit)
    if not isinstance(given, Key):
        raise UsageError(f"resource: {given!r} is no key: give text, or Key('gpu', limit=4)")
    check_key("resource", given.name)
    return given


def _rate(value: object) -> Rate | None:
    if value is None:
        return None
    if not isinstance(value, Rate):
        raise UsageError(f"rate={value!r}: give a Rate, for example Rate(10, per=1)")
    if value.key is not None:
        check_key("rate", value.key)
    return value


def _fair(value: Any) -> str | None:
    return None if value is None else check_key("fair", value)


def _weight(value: object) -> int:
    most = MOST_WEIGHT_THOUSANDTHS / NORMAL_WEIGHT_THOUSANDTHS
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not isinstance(value, int | float) or not is_number or not 0.001 <= value <= most:
        raise UsageError(
            f"fair_weight={value!r}: give a number from 0.001 to {most:g}; 2 gets twice as many "
            "starts as 1"
        )
    return round(value * NORMAL_WEIGHT_THOUSANDTHS)


def _length(name: str, value: Any) -> Wait:
    if value is None:
        return 0
    if (length := wait(name, value)) == 0:
        raise UsageError(f"{name}={value!r}: give more than 0 seconds, or None")
    return length


_FIELDS = {
    "rate": ("rate", _rate),
    "fair": ("fair", _fair),
    "fair_weight": ("weight", _weight),
    "throttle": ("throttle", lambda value: _length("throttle", value)),
    "debounce": ("debounce", lambda value: _length("debounce", value)),
    "debounce_max": ("debounce_max", lambda value: _length("debounce_max", value)),
    "tags": ("tags", check_tags),
    "id": ("id", check_id),
}
LIMIT_CHOICES = frozenset(_FIELDS)


def choose_limits(
    limits: LimitOptions, choices: Mapping[str, Any], keys: tuple[Key, ...] | None
) -> LimitOptions:
    """The limits with these choices changed. Raises `UsageError` for a choice that is wrong by
    itself."""
    changes: dict[str, Any] = {} if keys is None else {"keys": keys}
    for name in LIMIT_CHOICES & choices.keys():
        field, check = _FIELDS[name]
        changes[field] = check(choices[name])
    changed = replace(limits, **changes)
    return limits if changed == limits else changed  # NO_LIMITS stays the same object


def check_together(limits: LimitOptions, unique: str | None, unique_for: Wait, when: When) -> None:
    """Raise `UsageError` for limits that make no sense together."""
    if limits.fair is None and limits.weight != NORMAL_WEIGHT_THOUSANDTHS:
        raise UsageError("fair_weight says how large the share of a group is: give fair='…' too")
    for name in ("throttle", "debounce"):
        if getattr(limits, name) and unique is None:
            raise UsageError(f"{name} is about jobs with one unique key: give unique='…' as well")
    if limits.debounce_max and not limits.debounce:
        raise UsageError("debounce_max bounds a debounce: give debounce=… as well")
    if limits.debounce_max and limits.debounce_max < limits.debounce:
        raise UsageError(
            f"debounce_max={limits.debounce_max / SECOND:g} is less than debounce="
            f"{limits.debounce / SECOND:g}: it is the longest wait in all, so give at least "
            f"{limits.debounce / SECOND:g}"
        )
    if limits.throttle and limits.debounce:
        raise UsageError("throttle keeps the first job, debounce the last: give one of them")
    if limits.throttle and unique_for:
        raise UsageError(
            "throttle keeps the unique key from the enqueue on, unique_for from the end of the "
            "job: give one of them"
        )
    if limits.debounce and when != When():
        raise UsageError("debounce says when the job runs: leave out .at(…) and .after(…)")
