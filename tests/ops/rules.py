"""The alert rules, and the series that they are tested with, as `promtool test rules` reads
them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as parser
import yaml
from msgspec import Struct

from .promql import NAME, Data, Labels, Series, Vector

OPS = Path(__file__).parents[2] / "ops"
_SERIES = re.compile(r"(\w+)(?:\{(.*)\})?")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_VALUES = re.compile(r"(_|-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?")


class Rule(Struct, frozen=True):
    name: str
    expr: str
    wait: float
    labels: dict[str, str]
    annotations: dict[str, str]


class Expected(Struct, frozen=True):
    """What a test says of one alert at one moment: the labels of those that fire."""

    test: str
    alert: str
    at: float
    firing: list[dict[str, str]]


def rules() -> list[Rule]:
    [group] = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    return [
        Rule(
            rule["alert"],
            rule["expr"],
            seconds(rule.get("for", "0s")),
            rule["labels"],
            rule["annotations"],
        )
        for rule in group["rules"]
    ]


def cases() -> Iterator[tuple[Data, float, list[Expected]]]:
    """Of each: its series, how often rules are looked at, and what to expect."""
    read = yaml.safe_load((OPS / "alerts.test.yml").read_text())
    for test in read["tests"]:
        step = seconds(test["interval"])
        data = Data(_series(one, step) for one in test["input_series"])
        yield (
            data,
            seconds(read["evaluation_interval"]),
            [_expected(test["name"], one) for one in test["alert_rule_test"]],
        )


def firing(rule: Rule, data: Data, at: float, every: float) -> list[dict[str, str]]:
    """The alerts of a rule that have been true for as long as it wants, looked at from the
    beginning on."""
    since: dict[Labels, float] = {}
    moment = 0.0
    while moment <= at:
        true: Vector = data.ask(rule.expr, moment)
        since = {_unnamed(labels): since.get(_unnamed(labels), moment) for labels in true}
        moment += every
    return [
        {**dict(labels), **rule.labels}
        for labels, began in since.items()
        if at - began >= rule.wait
    ]


def seconds(length: str) -> float:
    return float(parser.parse_duration(length).total_seconds()) if length != "0s" else 0.0


def _unnamed(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] != NAME)


def _expected(test: str, one: dict[str, Any]) -> Expected:
    alerts = [alert["exp_labels"] for alert in one["exp_alerts"]]
    return Expected(test, one["alertname"], seconds(one["eval_time"]), alerts)


def _series(one: dict[str, str], step: float) -> Series:
    found = _SERIES.fullmatch(one["series"])
    assert found is not None, one
    labels = {NAME: found[1], **dict(_LABEL.findall(found[2] or ""))}
    values = [value for word in one["values"].split() for value in _spelled_out(word)]
    return Series(
        labels, [(n * step, value) for n, value in enumerate(values) if value is not None]
    )


def _spelled_out(word: str) -> Iterator[float | None]:
    """`0+2x3` is 0, 2, 4, 6; `1x3` is 1, 1, 1, 1; `_x3` is no sample, three times."""
    found = _VALUES.fullmatch(word)
    assert found is not None, word
    start, growth, times = found.groups()
    if start == "_":
        yield from [None] * int(times or 1)
        return
    for n in range(int(times or 0) + 1):
        yield float(start) + n * float(growth or 0)
