"""The files in `sql/`: each says what it takes and what it returns, and repeats no rule."""

import re
from importlib.resources import files

import pytest

from mita.model.job import Asked, State
from mita.model.outcome import TimelineKind
from mita.stores.postgres.server.fragments import FRAGMENTS
from mita.stores.postgres.server.statements import VARIANTS, PostgresStatements, read

NAMES = sorted(
    entry.name.removesuffix(".sql")
    for entry in files("mita.stores.postgres").joinpath("sql").iterdir()
)
RULES = {*State, *Asked, *TimelineKind} - {""}
# "active" and "committed" are words of PostgreSQL itself
FILLED_IN_LATER = {"now", "where"}.union(*(parts for _, parts in VARIANTS.values()))


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_begins_with_its_name_what_it_takes_and_what_it_returns(name: str) -> None:
    head = "\n".join(line for line in read("sql", f"{name}.sql").splitlines() if line[:2] == "--")
    assert head.startswith(f"-- {name}: ")
    assert "In: " in head
    assert "Out: " in head


def test_no_statement_repeats_a_state_or_a_kind() -> None:
    for name in NAMES:
        code = re.sub(r"--.*", "", read("sql", f"{name}.sql"))
        assert not RULES & set(re.findall(r"'(\w+)'", code)), name


def test_every_fragment_that_a_statement_names_is_there() -> None:
    for name in NAMES:
        code = re.sub(r"--.*", "", read("sql", f"{name}.sql"))
        assert set(re.findall(r"\{(\w+)\}", code)) <= FRAGMENTS.keys() | FILLED_IN_LATER, name


def test_what_was_asked_first_is_filled_in_from_the_rules() -> None:
    text = PostgresStatements("space")["settle_succeed"]
    assert "case j.asked when 'cancel' then 'cancelled' when 'reschedule' then 'queued' end" in text
    assert '"space"._job' in text
    assert "{" not in text
