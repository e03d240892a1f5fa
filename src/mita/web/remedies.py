"""From the command that a reason advises to a button that does the same. Pure."""

from collections.abc import Callable

from msgspec import Struct

from mita.printable import shell_command
from mita.rules.explain.evidence import Reason


class Remedy(Struct, frozen=True):
    """What to do about a reason. `path` and `fields` are those of the form behind the button.
    Without fields the path is a page to look at; without a path the remedy is a command to type."""

    advice: str
    command: str = ""
    path: str = ""
    fields: dict[str, str] = {}

    @property
    def label(self) -> str:
        """The words on the button."""
        return _LABELS.get(self.fields.get("act", ""), "Do it")


_LABELS = {
    "retry": "Retry",
    "cancel": "Cancel",
    "reschedule": "Run now",
    "resume": "Resume",
    "unhold": "End the hold",
    "unlimit": "Remove the limit",
}


def remedy_of(reason: Reason) -> Remedy | None:
    """Return the remedy of a reason; None if it has none."""
    if not reason.remedy:
        return None
    if not reason.command:
        return Remedy(reason.remedy)
    command = shell_command(("mita", *reason.command))
    advice = reason.remedy.removesuffix(command).rstrip().removesuffix(":")
    make = _BUTTONS.get(reason.command[0])
    path, fields = make(reason.command[1:]) if make is not None else ("", {})
    return Remedy(advice, command, path, fields)


def _job_act(act: str) -> Callable[[tuple[str, ...]], tuple[str, dict[str, str]]]:
    def button(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        if len(words) != 1:
            return "", {}
        return f"/jobs/{words[0]}/act", {"act": act}

    return button


def _reschedule(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    match words:
        case (id, "--after", "0"):
            return f"/jobs/{id}/act", {"act": "reschedule", "after": "0"}
    return "", {}


def _resume(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    match words:
        case (queue,):
            return "/queues/act", {"act": "resume", "queue": queue}
    return "", {}


def _unhold(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    match words:
        case (key,):
            return "/keys/act", {"act": "unhold", "key": key}
        case (key, "--queue", queue):
            return "/keys/act", {"act": "unhold", "key": key, "queue": queue}
    return "", {}


def _repeats(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    match words:
        case ("resume", key):
            return "/repeats/act", {"act": "resume", "key": key}
    return "", {}


def _look(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    return (f"/jobs/{words[0]}", {}) if len(words) == 1 else ("", {})


def _limit(words: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    match words:
        case ("key", key, "--none", "--queue", queue):
            return "/keys/act", {"act": "unlimit", "key": key, "queue": queue}
        case ("queue", *_):
            return "/queues", {}
    return "", {}


_BUTTONS = {
    "why": _look,
    "show": _look,
    "limit": _limit,
    "repeats": _repeats,
    "retry": _job_act("retry"),
    "cancel": _job_act("cancel"),
    "reschedule": _reschedule,
    "resume": _resume,
    "unhold": _unhold,
}
