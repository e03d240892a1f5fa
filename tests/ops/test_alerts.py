"""The alert rules: over metrics that exist, and right about the series that they are tested
with."""

import re
import shutil
import subprocess

import pytest

from .metrics import unknown
from .rules import OPS, Expected, cases, firing, rules

RULES = {rule.name: rule for rule in rules()}
CASES = [(data, every, one) for data, every, expected in cases() for one in expected]


def named(case: object) -> str | None:
    return (
        f"{case.alert} at {case.at / 60:g} min: {case.test}" if isinstance(case, Expected) else None
    )


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_only_what_there_is(name: str) -> None:
    assert unknown(RULES[name].expr) == []


@pytest.mark.parametrize(("data", "every", "expected"), CASES, ids=named)
def test_a_rule_fires_when_it_should_and_only_then(
    data: object, every: float, expected: Expected
) -> None:
    found = firing(RULES[expected.alert], data, expected.at, every)  # type: ignore[arg-type]
    assert sorted(found, key=str) == sorted(({**labels} for labels in expected.firing), key=str)


def test_every_rule_is_seen_firing_and_silent() -> None:
    for name in RULES:
        seen = {bool(one.firing) for _, _, one in CASES if one.alert == name}
        assert seen == {True, False}, name


@pytest.mark.parametrize("name", RULES)
def test_a_rule_says_what_is_wrong_and_what_to_do(name: str) -> None:
    rule = RULES[name]
    assert rule.labels["severity"] in ("warning", "critical")
    assert set(rule.annotations) == {"summary", "description"}
    told = " ".join(rule.annotations.values())
    kept = (
        set(re.findall(r"by \(([^)]*)\)", rule.expr)[0].split(", "))
        if " by (" in rule.expr
        else set()
    )
    assert set(re.findall(r"\$labels\.(\w+)", told)) <= kept
    page = (OPS.parent / "docs" / "guide" / "alerts.md").read_text()
    assert f"`{name}`" in page


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool comes with Prometheus: apt install prometheus",
)
def test_promtool_agrees() -> None:
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        told = subprocess.run(
            ["promtool", *command], cwd=OPS, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stdout + told.stderr
