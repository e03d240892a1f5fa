"""The five stores have the same files, so that a reader who knows one store knows them all.

A file that a store does not need is missing with an excuse. What only one engine needs is in a
folder of that store, and the folder's name says what it is."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import mita
from mita.ports.store import Store

STORES = ("memory", "sqlite", "postgres", "redis", "nats")
PLAN = """\
store connection context codec
enqueue claim settle leases amend once resources unique repeats
inspect control audit maintenance doctor notify pubsub history"""
FILES = set(PLAN.split())
ROOT = Path(mita.__path__[0])

# (store, file): why this store has no such file.
EXCUSES: dict[tuple[str, str], str] = {
    ("memory", "connection"): "there is nothing to connect to",
}

# First words of statements that are no verbs of the store, with the reason.
HELPERS = {
    "clock": "the store's clock is read and set before every verb",
    "key": "several verbs ask who has a resource key, and wake the jobs that wait for it",
    "unique": "several verbs take and free unique keys",
    "note": "several verbs add a line to a job's timeline",
    "delete": "settle, amend and prune delete jobs in the same way",
    "aside": "any verb that meets a record that cannot be read sets it aside",
}


def modules(store: str) -> set[str]:
    return {path.stem for path in (ROOT / "stores" / store).glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("store", STORES)
def test_every_store_has_the_same_files(store: str) -> None:
    excused = {file for name, file in EXCUSES if name == store}
    assert modules(store) == FILES - excused


def test_every_excuse_is_for_a_file_of_the_plan_and_has_a_reason() -> None:
    assert {store for store, _ in EXCUSES} <= set(STORES)
    assert {file for _, file in EXCUSES} <= FILES
    assert all(EXCUSES.values())


def verbs() -> set[str]:
    return {name for name in dir(Store) if not name.startswith("_")}


@pytest.mark.parametrize("store", STORES)
def test_a_verb_has_the_same_parameters_in_every_store(store: str) -> None:
    """mypy compares types, but not the names of positional parameters."""
    kind = getattr(import_module(f"mita.stores.{store}"), f"{store.capitalize()}Store")
    for verb, promised in inspect.getmembers(Store, inspect.iscoroutinefunction):
        _, *names = inspect.signature(promised).parameters
        _, *found = inspect.signature(getattr(kind, verb)).parameters
        assert found == names, f"{verb} of {store}"


@pytest.mark.parametrize("store", STORES)
def test_a_statement_is_named_after_its_verb(store: str) -> None:
    folder = ROOT / "stores" / store
    names = {path.stem for kind in ("sql", "lua") for path in (folder / kind).glob(f"*.{kind}")}
    words = verbs() | set(HELPERS)
    strange = {
        name
        for name in names
        if not any(name == word or name.startswith(f"{word}_") for word in words)
    }
    assert not strange, "name them <verb>.sql, or <verb>_<step>.sql"


@pytest.mark.parametrize("store", STORES)
def test_a_statement_is_at_most_100_columns_wide(store: str) -> None:
    folder = ROOT / "stores" / store
    wide = {
        f"{path.name}:{number}"
        for kind in ("sql", "lua")
        for path in (folder / kind).rglob(f"*.{kind}")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    }
    assert not wide
