"""As much of PromQL as our rules and panels use, evaluated on series in memory.

The parser is a real one; the arithmetic follows Prometheus' (rates are extrapolated, a sample is
good for five minutes). It is no Prometheus: what it does not know it refuses. `promtool` is asked
as well where it is installed."""

import math
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, TypeAlias

import promql_parser as parser
from msgspec import Struct

Labels: TypeAlias = tuple[tuple[str, str], ...]
Vector: TypeAlias = dict[Labels, float]
LOOKBACK = 300.0
NAME = "__name__"


class Series(Struct):
    labels: dict[str, str]
    samples: list[tuple[float, float]]  # moment and value, in order


class Data:
    """Series, and questions to them at a moment."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._series = list(series)

    def ask(self, query: str, at: float) -> Vector:
        answer = self._value(parser.parse(query), at)
        return answer if isinstance(answer, dict) else {(): answer}

    def _value(self, node: Any, at: float) -> Any:
        match node:
            case parser.NumberLiteral():
                return node.val
            case parser.ParenExpr():
                return self._value(node.expr, at)
            case parser.VectorSelector():
                return self._instant(node, at)
            case parser.Call():
                return self._call(node, at)
            case parser.AggregateExpr():
                return _aggregate(node, self._value(node.expr, at))
            case parser.BinaryExpr():
                return _binary(node, self._value(node.lhs, at), self._value(node.rhs, at))
        raise NotImplementedError(f"{type(node).__name__}: {node.prettify()}")

    # ------------------------------------------------------------ selectors

    def _matching(self, node: Any) -> list[Series]:
        return [series for series in self._series if _matches(node, series.labels)]

    def _instant(self, node: Any, at: float) -> Vector:
        moment = at - _offset(node)
        found: Vector = {}
        for series in self._matching(node):
            index = bisect_right(series.samples, (moment, math.inf)) - 1
            if index >= 0 and moment - series.samples[index][0] < LOOKBACK:
                found[_key(series.labels)] = series.samples[index][1]
        return found

    def _range(
        self, node: Any, at: float
    ) -> tuple[float, float, dict[Labels, list[tuple[float, float]]]]:
        end = at - _offset(node.vector_selector)
        start = end - node.range.total_seconds()
        inside = {
            _key(series.labels, drop=[NAME]): [
                sample for sample in series.samples if start <= sample[0] <= end
            ]
            for series in self._matching(node.vector_selector)
        }
        return start, end, inside

    # ------------------------------------------------------------ functions

    def _call(self, node: Any, at: float) -> Any:
        match node.func.name:
            case "rate" | "increase" as name:
                start, end, inside = self._range(node.args[0], at)
                grown = {
                    labels: _increase(samples, start, end) for labels, samples in inside.items()
                }
                per = end - start if name == "rate" else 1.0
                return {labels: value / per for labels, value in grown.items() if value is not None}
            case "absent":
                return {} if self._value(node.args[0], at) else {(): 1.0}
            case "histogram_quantile":
                return _quantiles(self._value(node.args[0], at), self._value(node.args[1], at))
        raise NotImplementedError(node.func.name)


def _matches(node: Any, labels: dict[str, str]) -> bool:
    if node.name is not None and labels.get(NAME) != node.name:
        return False
    for matcher in node.matchers.matchers:
        value = labels.get(matcher.name, "")
        match str(matcher.op).rsplit(".", 1)[-1]:
            case "Equal":
                fits = value == matcher.value
            case "NotEqual":
                fits = value != matcher.value
            case "Re":
                fits = re.fullmatch(matcher.value, value) is not None
            case other:
                raise NotImplementedError(f"matcher {other}")
        if not fits:
            return False
    return True


def _offset(node: Any) -> float:
    return 0.0 if node.offset is None else float(node.offset.total_seconds())


def _key(labels: dict[str, str], drop: Iterable[str] = ()) -> Labels:
    return tuple(sorted((name, value) for name, value in labels.items() if name not in drop))


def _increase(samples: list[tuple[float, float]], start: float, end: float) -> float | None:
    """By how much a counter grew, extrapolated to the ends of the range as Prometheus does."""
    if len(samples) < 2:
        return None
    pairs = pairwise(samples)
    grown = sum(
        later - earlier if later >= earlier else later for (_, earlier), (_, later) in pairs
    )
    (first, first_value), (last, _) = samples[0], samples[-1]
    covered = last - first
    usual = covered / (len(samples) - 1)
    before, after = first - start, end - last
    if grown > 0 and first_value >= 0:  # it cannot have been below zero
        before = min(before, covered * first_value / grown)
    before = before if before < usual * 1.1 else usual / 2
    after = after if after < usual * 1.1 else usual / 2
    return grown * (covered + before + after) / covered


def _quantiles(share: float, buckets: Vector) -> Vector:
    groups: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        named = dict(labels)
        groups.setdefault(_key(named, drop=["le", NAME]), []).append((float(named["le"]), count))
    return {labels: _quantile(share, sorted(found)) for labels, found in groups.items()}


def _quantile(share: float, buckets: list[tuple[float, float]]) -> float:
    rank = share * buckets[-1][1]
    below_bound, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if math.isinf(bound):
                return below_bound
            return (
                below_bound + (bound - below_bound) * (rank - below) / (count - below)
                if count > below
                else bound
            )
        below_bound, below = bound, count
    return math.nan


# ---------------------------------------------------------------- operators

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "count": len,
}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.nan,
}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def _aggregate(node: Any, inner: Vector) -> Vector:
    kept = node.modifier.labels if node.modifier is not None else []
    groups: dict[Labels, list[float]] = {}
    for labels, value in inner.items():
        groups.setdefault(tuple(pair for pair in labels if pair[0] in kept), []).append(value)
    return {labels: _AGGREGATES[str(node.op)](values) for labels, values in groups.items()}


def _binary(node: Any, left: Any, right: Any) -> Any:
    sign = str(node.op)
    if node.modifier is not None and node.modifier.matching is not None:
        raise NotImplementedError("on and ignoring")
    match sign:
        case "and":
            return {labels: value for labels, value in left.items() if labels in right}
        case "or":
            return {**right, **left}
        case "unless":
            return {labels: value for labels, value in left.items() if labels not in right}
    if not isinstance(left, dict) and not isinstance(right, dict):
        return _ARITHMETIC[sign](left, right)
    sides = [_unnamed(side) for side in (left, right) if isinstance(side, dict)]
    pairs = {
        key: (_at(left, key), _at(right, key))
        for key in sides[0]
        if all(key in side for side in sides)
    }
    if sign in _COMPARE:
        return {
            key: a if isinstance(left, dict) else b
            for key, (a, b) in pairs.items()
            if _COMPARE[sign](a, b)
        }
    return {key: _ARITHMETIC[sign](a, b) for key, (a, b) in pairs.items()}


def _at(side: Any, key: Labels) -> float:
    return float(_unnamed(side)[key]) if isinstance(side, dict) else float(side)


def _unnamed(vector: Vector) -> Vector:
    return {
        tuple(pair for pair in labels if pair[0] != NAME): value for labels, value in vector.items()
    }
