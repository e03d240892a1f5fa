"""What a query may name: the metrics that Mita has, with their labels."""

from typing import Any

import promql_parser as parser

from mita.metrics import TABLE

OF_THE_SCRAPER = {"job", "instance"}
_PARTS = {"histogram": ("_bucket", "_sum", "_count")}


def known() -> dict[str, set[str]]:
    """Every series that a scrape can have, and its labels."""
    found: dict[str, set[str]] = {}
    for metric in TABLE:
        for part in _PARTS.get(metric.kind, ("",)):
            found[metric.name + part] = {
                *metric.labels,
                *(["le"] if part == "_bucket" else []),
                *OF_THE_SCRAPER,
            }
    return found


def unknown(query: str) -> list[str]:
    """What the query names that does not exist: metrics, labels they do not have, groupings by such
    labels."""
    series, wrong = known(), []
    used: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, parser.VectorSelector):
            if node.name not in series:
                wrong.append(str(node.name))
                return
            used.update(series[node.name])
            wrong.extend(
                f"{node.name}{{{one.name}}}"
                for one in node.matchers.matchers
                if one.name not in series[node.name]
            )

    def group(node: Any) -> None:
        if isinstance(node, parser.AggregateExpr) and node.modifier is not None:
            wrong.extend(f"by ({label})" for label in node.modifier.labels if label not in used)

    tree = parser.parse(query)
    parser.walk(tree, pre_visit=visit)
    parser.walk(tree, pre_visit=group)
    return wrong
