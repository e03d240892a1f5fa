"""The plots of a run: rates beside the raw loop, cost per job as more jobs wait, and more worker
processes."""

from collections.abc import Callable, Iterator
from pathlib import Path

from .charts import Bar, Line, Words, bars, lines
from .figures import Report
from .svg import Board

_COLOURS = {
    "memory": "grey",
    "sqlite": "blue",
    "redis": "red",
    "postgres": "green",
    "nats": "purple",
}
NAMES = {
    "memory": "memory",
    "sqlite": "SQLite",
    "redis": "Redis",
    "postgres": "PostgreSQL",
    "nats": "NATS",
}
_COLOURS_BY_PROCESSES = {1: "sky", 2: "blue", 4: "navy"}
_RATE = "jobs per second"
_COST = "microseconds per job"
_LEAST_WAITING_JOBS = 10_000  # growth is drawn from this many waiting jobs on


def draw_all(report: Report, folder: Path) -> Iterator[Path]:
    """Write one file for each plot that has figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PLOTS.items():
        board = draw(report)
        if board is not None:
            path = folder / name
            path.write_text(str(board), encoding="utf-8")
            yield path


def _source(report: Report) -> str:
    machine = report.machine
    return (
        f"{machine['cpu']}, {machine['cores']} cores; {machine['python']}; commit "
        f"{machine['commit']}; {report.started[:10]}"
    )


def rates(report: Report) -> Board | None:
    """The raw loop, then async and sync handlers."""
    words = Words(
        title="Drained by one worker process, beside the raw loop of the engine",
        across=_RATE,
        source=_source(report),
    )
    kinds = {
        "raw loop": ("raw", "grey"),
        "Mita, async handlers": ("drain", "blue"),
        "Mita, sync handlers": ("sync", "orange"),
    }

    def group(store: str) -> list[Bar]:
        return [
            Bar(name, colour, figure.value)
            for name, (workload, colour) in kinds.items()
            for figure in report.find(store, workload)
            if figure.value and (workload != "raw" or figure.name.endswith("drain"))
        ]

    return _bars(report, words, group)


def crews(report: Report) -> Board | None:
    words = Words(
        title="Drained by 1, 2 and 4 worker processes", across=_RATE, source=_source(report)
    )

    def group(store: str) -> list[Bar]:
        return [
            Bar(
                f"{figure.processes} process{'es' if figure.processes > 1 else ''}",
                _COLOURS_BY_PROCESSES.get(figure.processes, "grey"),
                figure.value,
            )
            for figure in report.find(store, "processes")
            if figure.value
        ]

    return _bars(report, words, group)


def _bars(report: Report, words: Words, group: Callable[[str], list[Bar]]) -> Board | None:
    groups = {NAMES[store]: found for store in report.stores if (found := group(store))}
    return bars(words, groups) if groups else None


def growth_ready(report: Report) -> Board | None:
    """Cost per job, from the end times of the jobs of one long drain."""
    words = Words(
        title="Cost of a job while so many others are ready",
        across="ready jobs in the store",
        up=_COST,
        source=_source(report),
    )

    def points(store: str) -> list[tuple[float, float]]:
        return sorted(
            (part.waiting, part.cost)
            for figure in report.find(store, "ready")[-1:]
            for part in figure.slices
        )

    return _lines(report, words, points)


def growth_scheduled(report: Report) -> Board | None:
    """Cost per job, from drains with many scheduled jobs in the store."""
    words = Words(
        title="Cost of a job beside so many scheduled ones",
        across="scheduled jobs in the store",
        up=_COST,
        source=_source(report),
    )

    def points(store: str) -> list[tuple[float, float]]:
        figures = [
            figure
            for figure in report.find(store, "scheduled")
            if figure.waiting >= _LEAST_WAITING_JOBS
        ]
        return sorted((figure.waiting, 1e6 / figure.value) for figure in figures if figure.value)

    return _lines(report, words, points)


def bloat(report: Report) -> Board | None:
    words = Words(
        title="Cost of a claim after so many jobs (PostgreSQL)",
        across="jobs moved through the queue",
        up=_COST,
        source=_source(report),
    )
    names = ("nothing beside it", "an old snapshot", "the same, keys")
    drawn = [
        Line(name, colour, [(part.waiting, part.cost) for part in figure.slices])
        for name, colour, figure in zip(
            names, ("green", "orange", "red"), report.find("postgres", "bloat"), strict=False
        )
        if len(figure.slices) > 1
    ]
    return lines(words, drawn) if drawn else None


def _lines(
    report: Report, words: Words, points: Callable[[str], list[tuple[float, float]]]
) -> Board | None:
    drawn = [
        Line(NAMES[store], _COLOURS[store], found)
        for store in report.stores
        if len(found := points(store)) > 1
    ]
    return lines(words, drawn) if drawn else None


PLOTS: dict[str, Callable[[Report], Board | None]] = {
    "drain.svg": rates,
    "processes.svg": crews,
    "growth-ready.svg": growth_ready,
    "growth-scheduled.svg": growth_scheduled,
    "bloat.svg": bloat,
}
