"""python -m benchmarks: measure stores and workloads, and store the figures."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .figures import Report
from .run import Wish, run
from .servers import STORES
from .table import show
from .workloads import WORKLOADS

_EXIT_USAGE = 2
_JSON = Path("build/bench.json")


def main(argv: Sequence[str] | None = None) -> int:
    # a shell that starts a run in the background has it ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = _parser()
    options = parser.parse_args(argv)
    if options.list:
        return _list()
    if options.render is not None:
        report = Report.read(options.render)
    else:
        stores = _chosen(parser, "store", options.stores, list(STORES))
        workloads = _chosen(parser, "workload", options.workloads, list(WORKLOADS))
        report = run(_wish(options, stores, workloads))
    show(report, sys.stdout)
    if options.plots is not None:
        from .plots import draw_all

        for path in draw_all(report, options.plots):
            print(f"plot: {path}")
    if options.render is None:
        print(f"figures: {options.json}")
    return _code(report)


def _code(report: Report) -> int:
    if report.stopped:
        return 130
    return 0 if all(figure.ok for figure in report.figures) else 1


def _list() -> int:
    print("stores:    " + ", ".join(STORES))
    print("workloads:")
    for name, workload in WORKLOADS.items():
        print(f"  {name:12} {workload.about}")
    return 0


def _chosen(
    parser: argparse.ArgumentParser, what: str, given: str | None, known: list[str]
) -> list[str]:
    """The chosen names, in their usual order. A wrong name exits with a list of the right ones."""
    if given is None:
        return known
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            parser.exit(
                _EXIT_USAGE, f"benchmarks: no {what} {name!r}: choose from {', '.join(known)}\n"
            )
    if not names:
        parser.exit(_EXIT_USAGE, f"benchmarks: name at least one {what}: {', '.join(known)}\n")
    return [name for name in known if name in names]


def _wish(options: argparse.Namespace, stores: list[str], workloads: list[str]) -> Wish:
    return Wish(
        stores=stores,
        workloads=workloads,
        json=options.json,
        quick=options.quick,
        jobs=options.jobs,
        waiting=options.waiting,
        repeat=options.repeat,
        concurrency=options.concurrency,
        aof=options.redis_aof,
        pin=options.pin,
        awake=options.awake,
        quiet=options.quiet,
        folder=options.dir,
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Figures of Mita on each store, with the engine's raw loop of the same run "
        "beside them.",
    )
    add = parser.add_argument
    add("--stores", metavar="A,B", help=f"some of {', '.join(STORES)}")
    add("--workloads", metavar="A,B", help="some of the names that --list shows")
    add("--list", action="store_true", help="show stores and workloads")
    add(
        "--quick", action="store_true", help="fewer jobs, no repeats: about two minutes for a store"
    )
    add(
        "--jobs",
        type=_count,
        metavar="N",
        help="jobs in a plain drain; other workloads use a fraction of it",
    )
    add("--waiting", type=_count, metavar="N", help="largest number of waiting jobs (1,000,000)")
    add(
        "--repeat", type=_count, metavar="N", help="measure this many times and take the median (3)"
    )
    add(
        "--concurrency",
        type=_count,
        default=100,
        metavar="N",
        help="jobs at once in a worker (100)",
    )
    add(
        "--redis-aof",
        choices=("everysec", "always", "no"),
        default="everysec",
        help="appendfsync of Redis (everysec)",
    )
    add(
        "--json",
        type=Path,
        default=_JSON,
        metavar="FILE",
        help=f"written after every measurement ({_JSON})",
    )
    add("--plots", type=Path, metavar="DIR", help="draw SVG plots there")
    add(
        "--render",
        type=Path,
        metavar="FILE",
        help="measure nothing: show an earlier run's JSON, and draw its plots",
    )
    add(
        "--dir",
        type=Path,
        metavar="DIR",
        help="where the stores keep their files (a temporary folder)",
    )
    add(
        "--quiet",
        type=float,
        default=0.0,
        metavar="S",
        help="wait at most this many seconds for a quiet machine (0)",
    )
    add(
        "--no-pin",
        dest="pin",
        action="store_false",
        help="do not pin the process under test to one core",
    )
    add(
        "--no-awake",
        dest="awake",
        action="store_false",
        help="let idle cores sleep (see processes.keep_awake)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
