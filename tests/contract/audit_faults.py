"""Audit logs that are broken on purpose."""

from bisect import insort
from typing import Any

import pytest

from mita.rules import audit as rules
from mita.stores.memory import audit as auditing

from .faults import Fault, said_as


def append_as_they_come(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(auditing, "insort", lambda log, entry, key: log.append(entry))


def keep_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "AUDIT_KEEP", 10 * rules.AUDIT_KEEP)


def keep_a_little(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "AUDIT_KEEP", rules.AUDIT_KEEP // 2)


def forget_the_details(patch: pytest.MonkeyPatch) -> None:
    def without(log: list[Any], entry: Any, key: Any) -> None:
        insort(log, type(entry)(**{**_fields(entry), "details": {}}), key=key)

    patch.setattr(auditing, "insort", without)


def _fields(entry: Any) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in entry.__struct_fields__}


def search_in_any_case(patch: pytest.MonkeyPatch) -> None:
    whole = rules.matches

    def matches(entry: Any, who: str | None, what: str | None, target: str | None) -> bool:
        inside = target is None or target.lower() in entry.target.lower()
        return inside and whole(entry, who, what, None)

    patch.setattr(rules, "matches", matches)


OF_AUDIT = [
    Fault(
        "an audit log in the order of arrival",
        append_as_they_come,
        ("test_the_newest_entry_comes_first",),
    ),
    Fault(
        "an audit log that is kept for ever",
        keep_for_ever,
        ("test_entries_are_deleted_when_they_are_too_old",),
    ),
    Fault(
        "an audit log that is deleted too early",
        keep_a_little,
        ("test_entries_are_deleted_when_they_are_too_old",),
    ),
    Fault(
        "an audit log without details",
        forget_the_details,
        ("test_an_entry_is_returned_as_it_was_recorded",),
    ),
    Fault(
        "a search in targets that ignores case",
        search_in_any_case,
        ("test_the_audit_log_is_filtered_by_person_verb_and_target",),
    ),
]

OF_AUDIT_IN_SQL = [
    Fault(
        "a search in targets by a pattern",
        said_as(audit_page=("instr(target, :target) > 0", "target like '%' || :target || '%'")),
        ("test_the_audit_log_is_filtered_by_person_verb_and_target",),
    ),
    Fault(
        "an audit log in the order of its rows",
        said_as(audit_page=("order by id desc", "order by seq desc")),
        ("test_the_newest_entry_comes_first",),
    ),
    Fault(
        "a page that begins with the last entry of the page before",
        said_as(audit_page=("id < :after", "id <= :after")),
        ("test_pages_of_the_audit_log_meet_every_entry_once",),
    ),
    Fault(
        "an entry that is recorded again and replaced",
        said_as(record_audit=("do nothing", "do update set entry = excluded.entry")),
        ("test_an_entry_that_is_recorded_again_is_there_once",),
    ),
]
