"""From calls of Celery tasks to enqueues, and from canvas to flows. All of it is code as text."""

import ast
from collections.abc import Mapping, Sequence

from msgspec import Struct


class CallArguments(Struct, frozen=True):
    """The arguments of a call as code: by position, and by name."""

    by_position: tuple[str, ...] = ()
    by_name: Mapping[str, str] = {}

    @property
    def code(self) -> str:
        """As they are written between the brackets."""
        return ", ".join([*self.by_position, *(f"{k}={v}" for k, v in self.by_name.items())])


_OPTIONS = {"queue": "queue", "priority": "priority", "expires": "expires", "task_id": "id"}
_LEFT_OUT = frozenset(("retry", "retry_policy", "serializer", "compression", "ignore_result"))


def enqueued(task: str, given: CallArguments, is_async: bool) -> str:
    """`task.delay(…)`."""
    verb = "enqueue" if is_async else "enqueue_sync"
    code = f"{task}.{verb}({given.code})"
    return f"await {code}" if is_async else code


def apply_async(task: str, given: CallArguments, is_async: bool) -> tuple[str, list[str]]:
    """`task.apply_async(…)`: the code, and notes for the reader."""
    by_position = zip(("args", "kwargs"), given.by_position, strict=False)
    names, notes = {**given.by_name, **dict(by_position)}, list[str]()
    both = _sequence(names.pop("args", "()")), _mapping(names.pop("kwargs", "{}"))
    inner = [part for part in both if part]
    bound = task
    options = {ours: names.pop(theirs) for theirs, ours in _OPTIONS.items() if theirs in names}
    if options:
        bound += f".options({', '.join(f'{name}={code}' for name, code in options.items())})"
    if "countdown" in names:
        bound += f".after({names.pop('countdown')})"
    elif "eta" in names:
        bound += f".at({names.pop('eta')})"
    notes += [
        f"the option {name}={code} of apply_async has no counterpart and was left out"
        for name, code in names.items()
        if name not in _LEFT_OUT
    ]
    return enqueued(bound, CallArguments(tuple(inner)), is_async), notes


def _sequence(code: str) -> str:
    """CallArguments that were given as a list or tuple."""
    tree = _parsed(code)
    if isinstance(tree, ast.Tuple | ast.List):
        return ", ".join(ast.get_source_segment(code, one) or "" for one in tree.elts)
    return "" if code == "None" else f"*{code}"


def _mapping(code: str) -> str:
    """CallArguments that were given as a dict."""
    tree = _parsed(code)
    if isinstance(tree, ast.Dict) and all(
        isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier()
        for key in tree.keys
    ):
        keys = [str(key.value) for key in tree.keys if isinstance(key, ast.Constant)]
        values = [ast.get_source_segment(code, one) or "" for one in tree.values]
        return ", ".join(f"{key}={value}" for key, value in zip(keys, values, strict=True))
    return "" if code == "None" else f"**{code}"


def _parsed(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


class Signature(Struct, frozen=True):
    """A Celery signature: `task.s(…)`, or `task.si(…)`, which is immutable."""

    task: str
    given: CallArguments
    immutable: bool = False

    @property
    def call(self) -> str:
        """As a call with all of its arguments."""
        return f"{self.task}.call({self.given.code})"

    @property
    def link(self) -> str | None:
        """As a link that gets the result before it; None if it has arguments of its own, too."""
        if self.immutable:
            return self.call
        return None if self.given.code else f"{self.task}.call"


def chained(app: str, links: Sequence[Signature]) -> str | None:
    """`chain(…)`; None if a link gets a result and arguments."""
    rest = [one.link for one in links[1:]]
    if not links or None in rest:
        return None
    return f"{app}.chain({', '.join([links[0].call, *(link for link in rest if link)])})"
