"""python -m benchmarks.page: put the figures of a run, and of a run beside other queues, into the
docs.

    python -m benchmarks.page --figures build/full.json --peers build/peers.json \\
        --chains build/chains/chains.json

Tables go between marks in the pages (`<!-- figures -->` to `<!-- /figures -->`), plots into
docs/pictures."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from . import beside, chains
from .figures import Figure, Report
from .markdown import filled, table
from .plots import NAMES, draw_all
from .table import footer, marked
from .workloads import WORKLOADS

_ROOT = Path(__file__).parent.parent
PAGES = (_ROOT / "docs" / "speed.md",)
PICTURES = _ROOT / "docs" / "pictures"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--figures",
        type=Path,
        nargs="*",
        default=[],
        metavar="JSON",
        help="runs of `python -m benchmarks`",
    )
    parser.add_argument(
        "--peers",
        type=Path,
        nargs="*",
        default=[],
        metavar="JSON",
        help="runs of the harness with other queues",
    )
    parser.add_argument(
        "--chains", type=Path, metavar="JSON", help="a run of `python -m benchmarks.chains`"
    )
    options = parser.parse_args()
    parts: dict[str, str] = {}
    if options.figures:
        report = joined(Report.read(path) for path in options.figures)
        parts |= {"figures": our_table(report), "conditions": conditions(report)}
        list(draw_all(report, PICTURES))
    if options.peers:
        runs = [json.loads(path.read_text()) for path in options.peers]
        parts |= {
            "peers": "\n\n".join(map(beside.whole_table, runs)),
            "peers-conditions": "\n".join(map(beside.conditions, runs)),
            "drains": beside.drains(runs),
        }
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / "peers.svg").write_text(str(beside.plot(runs)), encoding="utf-8")
    if options.chains:
        runs = json.loads(options.chains.read_text())
        parts |= {"chains": chains.medians(runs), "chains-readings": chains.readings(runs)}
    for page in PAGES:
        page.write_text(filled(page.read_text(), parts))


# ---------------------------------------------------------------- our own figures


def joined(reports: Iterable[Report]) -> Report:
    """Merge runs of different stores or workloads. The later of two figures with one name wins."""
    first, *others = reports
    for other in others:
        measured = {(figure.store, figure.workload) for figure in other.figures}
        first.figures = [
            figure for figure in first.figures if (figure.store, figure.workload) not in measured
        ] + other.figures
        first.stores |= other.stores
    return first


def our_table(report: Report) -> str:
    """One line for each thing that was measured, one column for each store."""
    order = ["raw", *WORKLOADS]  # the raw loop of the engine comes first
    figures = sorted(report.figures, key=lambda figure: order.index(figure.workload))
    names = list(dict.fromkeys(figure.name for figure in figures))
    found = {(figure.name, figure.store): figure for figure in report.figures}
    stores = list(report.stores)
    rows = [[name, *(_cell(found.get((name, store))) for store in stores)] for name in names]
    return table(["", *(NAMES[store] for store in stores)], rows)


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    share = "" if figure.share is None else f" ({figure.share:.0f} %)"
    against = [] if figure.against in (None, 1.0) else [f"x {figure.against:.2f}"]
    against += [] if figure.against_cpu in (None, 1.0) else [f"cpu x {figure.against_cpu:.2f}"]
    return marked(figure) + share + (f" ({', '.join(against)})" if against else "")


def conditions(report: Report) -> str:
    return "\n".join(f"- {line}" for line in footer(report))


if __name__ == "__main__":
    main()
