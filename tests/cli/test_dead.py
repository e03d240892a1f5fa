"""`mita dead`: failed jobs in groups, and the filter `--group`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run

Put = Callable[..., str]
Work = Callable[[], None]


@pytest.fixture
def groups(mita: Run, enqueue: Put, work_off: Work) -> list[dict[str, Any]]:
    """Three jobs of one group and one of another, as `mita dead --json` shows them."""
    for account in "112":
        enqueue("charge", account, "-5")
    enqueue("flaky")
    work_off()
    found: list[dict[str, Any]] = mita("dead", "--json").data["groups"]
    return found


def test_groups_are_listed_with_the_largest_first(mita: Run, groups: list[dict[str, Any]]) -> None:
    assert [(one["task"], one["count"], one["error_type"]) for one in groups] == [
        ("charge", 3, "ValueError"),
        ("flaky", 1, "KeyError"),
    ]
    assert groups[0]["frame"] == "charge in shop.py"
    assert sum(groups[0]["hours"]) == 3
    said = mita("dead")
    assert said.code == 0
    head, first, second, *_ = said.out.splitlines()
    assert head.split()[:4] == ["GROUP", "JOBS", "LAST", "FIRST"]
    assert first.startswith(f"{groups[0]['group']}     3  ")
    assert "█" in first
    assert "ValueError: cannot charge less than nothing" in first
    assert second.startswith(groups[1]["group"])
    assert "KeyError: <text> (flaky in shop.py)" in second
    only = mita("dead", "--queue", "billing", "--json").data["groups"]
    assert [one["group"] for one in only] == [groups[0]["group"]]
    only = mita("dead", "--task", "flaky", "--limit", "1", "--json").data["groups"]
    assert [one["group"] for one in only] == [groups[1]["group"]]


def test_one_group_is_shown_with_its_error_and_commands(
    mita: Run, groups: list[dict[str, Any]]
) -> None:
    group = groups[0]["group"]
    said = mita("dead", group[:5].upper())
    assert said.code == 0
    assert f"sample    {groups[0]['sample']}" in said.out
    assert "  ValueError: cannot charge less than nothing" in said.out
    assert f"mita retry --group {group}" in said.out
    data = mita("dead", group, "--json").data
    assert data["group"]["count"] == 3
    assert data["error"].startswith("ValueError")
    assert data["commands"]["run them again"][:3] == ["retry", "--group", group]


def test_what_a_group_shows_can_be_typed(
    mita: Run, groups: list[dict[str, Any]], work_off: Work
) -> None:
    group = groups[0]["group"]
    commands = mita("dead", group, "--json").data["commands"]
    listed = mita(*commands["look at them"], "--json").data["jobs"]
    assert [(job["task"], job["group"]) for job in listed] == [("charge", group)] * 3
    assert "3 jobs match" in mita(*commands["count what a retry would run"]).out
    assert mita(*commands["run them again"], "--yes").code == 0
    assert mita("dead", group).code != 0
    work_off()
    assert mita("dead", group, "--json").data["group"]["count"] == 3
    assert mita(*commands["delete them"], "--yes").code == 0
    assert [one["task"] for one in mita("dead", "--json").data["groups"]] == ["flaky"]


def test_a_reschedule_of_a_group_retries_its_jobs_then(
    mita: Run, groups: list[dict[str, Any]]
) -> None:
    said = mita("reschedule", "--group", groups[0]["group"], "--after", "2d", "--yes", "--json")
    assert said.data["answers"] == {"done": 3}
    assert len(mita("jobs", "--state", "scheduled", "--json").data["jobs"]) == 3


WRONG = {
    ("dead", "nosuch"): "no failed job has the group 'nosuch'",
    ("dead", ""): "no failed job has the group ''",
    ("dead", "--limit", "0"): "whole number",
    ("dead", "--limit", "100000"): "limit=100000",
    ("dead", "--queue", ""): "queue",
    ("jobs", "--group", "12"): "give the 16 digits",
    ("retry", "--group", "x" * 16, "--yes"): "give the 16 digits",
    ("cancel", "--group", "0" * 16, "--yes"): "Retry, reschedule or delete them",
    ("retry", "--group", "0" * 16, "--state", "cancelled"): "leave state out",
    ("retry", "--group", "0" * 16, "some-id"): "but not both",
    ("retry", "--group"): "expected one argument",
}


def test_wrong_groups_are_refused(mita: Run, groups: list[dict[str, Any]]) -> None:
    for words, complaint in WRONG.items():
        said = mita(*words)
        assert said.code != 0, words
        assert complaint in said.err, (words, said.err)
    assert mita("dead", "--json").data["groups"] == groups


def test_jobs_without_a_group_are_named_none(mita: Run, enqueue: Put, project: Path) -> None:
    assert "no failed jobs" in mita("dead").out or mita("dead").code != 0
    enqueue("greet", "Ada")
    assert mita("dead").out == "no failed jobs\n"
    assert mita("jobs", "--group", "none").out == "no jobs match\n"
    assert mita("retry", "--group", "none", "--dry-run").out == "0 jobs match\n"
