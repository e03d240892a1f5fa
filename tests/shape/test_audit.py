"""Every public method that changes something is recorded while somebody acts, and no other is.

The list of methods is not written down. Each async method of the app, of its repeats and of a flow
is called, with arguments that are chosen by the names of its parameters. A spy around the store
sees whether it changed anything."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import mita.cli
from mita import Every, Mita, MitaError, Rate
from mita.client.flow_run import FlowRun
from mita.client.flows import Flow
from mita.client.repeats import Repeats
from mita.ports.store import Control
from mita.stores.memory import MemoryState, MemoryStore
from mita.testing.contract.given import dead

# the verbs of a store by which people change things
CHANGING = {
    *(name for name in dir(Control) if not name.startswith("_")),
    *("enqueue", "amend", "put_repeat", "remove_repeats", "pause_repeats", "resume_repeats"),
}
# methods that open, close or follow a store, and need no operator
LEFT_OUT = {"close", "open_store", "put_declared"}
KINDS: dict[str, type] = {"app": Mita, "repeats": Repeats, "run": FlowRun, "flow": Flow}


class Spy(MemoryStore):
    """A store that notes which verbs were called."""

    called: set[str]

    def __getattribute__(self, name: str) -> Any:
        if name in CHANGING:
            self.called.add(name)
        return super().__getattribute__(name)


class Scene(NamedTuple):
    """An app with something of each kind in its store."""

    objects: Mapping[str, Any]
    values: Mapping[str, Any]
    called: set[str]


def methods() -> Iterator[tuple[str, str]]:
    for owner, kind in KINDS.items():
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            if name.startswith("_") or name in LEFT_OUT:
                continue
            if inspect.iscoroutinefunction(method):
                yield owner, name


METHODS = list(methods())


async def scene() -> Scene:
    state, called = MemoryState(), set[str]()

    def store() -> Spy:
        spy = Spy(state)
        spy.called = called
        return spy

    first = store()
    await dead(first)
    app = Mita(store=store)

    @app.task(resource="gpu", queue="mail")
    async def send(to: str = "ada") -> None: ...

    flow = app.flow("album")
    flow.add(send.call())
    other = app.flow("other")
    other.add(send.call())
    await app.repeats.put("nightly", send.call(), Every(60))
    waiting = await send.enqueue()
    now = datetime.now(UTC)
    values = {
        "id": waiting.id,
        "key": "nightly",
        "call": send.call(),
        "calls": [send.call()],
        "pattern": Every(30),
        "queue": "mail",
        "queues": "mail",
        "priority": 7,
        "name": "approved",
        "what": "nightly",
        "after": 60,
        "start": now - timedelta(minutes=5),
        "end": now - timedelta(minutes=1),
        "concurrency": 3,
        "rate": Rate(5),
        "all": True,
        "timeout": 0.001,
        "step": None,
        "arguments": {"to": "bob"},
        "verb": "retry",
    }
    objects = {"app": app, "repeats": app.repeats, "run": await flow.enqueue(), "flow": other}
    called.clear()
    return Scene(objects, values, called)


def arguments(
    method: Callable[..., Any], values: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call: a value for each parameter without a default, and for those that a
    call makes no sense without."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    parameters = inspect.signature(method).parameters
    wanted = {"all", "timeout", "concurrency"}
    if {"at", "until"} & set(parameters):
        wanted.add("after")
    for name, one in parameters.items():
        needed = one.default is one.empty and one.kind is not one.VAR_KEYWORD
        assert name in values or not needed, f"give a value for {name!r} in scene()"
        if needed and one.kind is not one.KEYWORD_ONLY:
            positional.append(values[name])
        elif needed or name in wanted:
            named[name] = values[name]
    return positional, named


@pytest.mark.parametrize(("owner", "name"), METHODS, ids=[f"{o}.{n}" for o, n in METHODS])
async def test_a_method_is_recorded_exactly_if_it_changes_something(owner: str, name: str) -> None:
    made = await scene()
    app: Mita = made.objects["app"]
    method = getattr(made.objects[owner], name)
    positional, named = arguments(method, made.values)
    # a refused change is recorded, too
    with app.acting("ada", "a test"), suppress(MitaError, TimeoutError):
        await method(*positional, **named)
    changed = bool(made.called & CHANGING)
    entries = (await app.audit()).entries
    assert len(entries) == changed, f"mark {owner}.{name} with @audited, or take the mark away"
    await app.close()


def test_the_list_of_methods_is_not_empty() -> None:
    assert len(METHODS) > 40
    assert {("app", "pause"), ("repeats", "trigger"), ("run", "retry"), ("flow", "enqueue")} <= {
        *METHODS
    }


def test_every_command_that_changes_something_takes_a_reason() -> None:
    """A command that calls a recorded verb has `--reason`, by which the command line knows that it
    must say who acts (`cli.parser.reason_option`)."""
    verbs = {
        name
        for kind in KINDS.values()
        for name in dir(kind)
        if getattr(inspect.getattr_static(kind, name), "records", False)
    }
    assert {"pause", "limit_queue", "trigger", "cancel_many"} <= verbs
    folder = Path(mita.cli.__path__[0])
    for path in folder.glob("*.py"):
        text = path.read_text()
        if any(f"app.{verb}(" in text or f"app.repeats.{verb}(" in text for verb in verbs):
            assert "reason_option(" in text, f"{path.name} changes something without --reason"
