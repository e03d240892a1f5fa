"""The printed table."""

import os
import shutil
from typing import TextIO

from mita.cli.table import Column, Table, draw

from .figures import Figure, Report
from .machine import in_words

_MB = 2**20
_NOISY_CORES = 0.25  # cores that other programs may use before a figure is marked as noisy

COLUMNS = (
    Column("store"),
    Column("workload"),
    Column("figure", right=True),
    Column("raw loop", right=True),
    Column("share", right=True),
    Column("worker cpu", right=True),
    Column("server cpu", right=True),
    Column("worker mb", right=True),
    Column("store mb", right=True),
    Column("notes", drop_order=1),
)


def show(report: Report, out: TextIO) -> None:
    terminal = out.isatty()
    if report.figures:
        width = shutil.get_terminal_size().columns if terminal else None
        colours = terminal and not os.environ.get("NO_COLOR")
        draw(
            Table(COLUMNS, [_row(figure) for figure in report.figures]), out, width, colours=colours
        )
    print(file=out)
    for line in footer(report):
        print(line, file=out)


def footer(report: Report) -> list[str]:
    lines = [
        "cpu: seconds per 1,000 jobs. share: of the raw loop in the same run.",
        f"(!): a check failed. (~): other programs used over {_NOISY_CORES:g} cores at that time.",
    ]
    for name, about in report.stores.items():
        parts = (about.server, about.settings, _fewer_waiting(report, name), about.skipped)
        lines.append(f"{name}: " + "; ".join(part for part in parts if part))
    if report.machine:
        lines += in_words(report.machine)
    if report.settings:
        lines.append("; ".join(f"{name} {value}" for name, value in report.settings.items()))
    if report.stopped:
        lines.append("the run was stopped: this is what it had")
    return lines


def _fewer_waiting(report: Report, store: str) -> str:
    """The remark that growth was measured with fewer waiting jobs than on other stores."""
    most = {
        name: max((figure.waiting for figure in report.find(name, "scheduled")), default=0)
        for name in report.stores
    }
    if not 0 < most[store] < max(most.values()):
        return ""
    return f"growth up to {most[store]:,} waiting jobs: to load more takes minutes for each figure"


def _row(figure: Figure) -> list[str]:
    cost = figure.cost
    return [
        figure.store,
        figure.name,
        marked(figure),
        _rate(figure.raw),
        "" if figure.share is None else f"{figure.share:.0f} %",
        _small(cost.worker_cpu if cost else None),
        _small(cost.server_cpu if cost else None),
        f"{cost.worker_rss[-1]:.0f}" if cost and cost.worker_rss else "",
        f"{cost.store_full / _MB:.1f}" if cost and cost.store_full else "",
        "; ".join(notes(figure)),
    ]


def marked(figure: Figure) -> str:
    loud = figure.noise is not None and figure.noise.foreign + figure.noise.steal > _NOISY_CORES
    return f"{value(figure)}{'' if figure.ok else ' (!)'}{' (~)' if loud else ''}"


def value(figure: Figure) -> str:
    if figure.value is None:
        return "none"
    match figure.unit:
        case "jobs/s":
            return f"{figure.value:,.0f}/s"
        case "ms":
            return f"{figure.value:.2f} ms"
    return f"{figure.value:,.0f} {figure.unit}"


def notes(figure: Figure) -> list[str]:
    """Remarks on a figure, failed checks first."""
    said = list(figure.problems)
    if figure.against is not None:
        said.append(f"{figure.against:.2f} of the plain one")
    if figure.against_cpu is not None:
        said.append(f"{figure.against_cpu:.2f} of its worker cpu for a job")
    if figure.spread is not None:
        spread = figure.spread
        said.append(
            f"p50 {spread.p50:.2f}, p99 {spread.p99:.2f}, most {spread.most:.2f} ms, "
            f"{spread.early} early"
        )
    if figure.unit == "MB":
        said.append(" → ".join(f"{size:.0f}" for size in figure.values) + " MB")
    elif len(figure.values) > 1:
        said.append(
            f"{min(figure.values):,.0f} to {max(figure.values):,.0f} in {len(figure.values)} runs"
        )
    return said


def reading(figure: Figure) -> str:
    """A figure in one line."""
    share = "" if figure.share is None else f", {figure.share:.0f} % of the raw loop"
    more = "; ".join(notes(figure))
    return f"{marked(figure)}{share}{f' ({more})' if more else ''}"


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}/s"


def _small(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}"
