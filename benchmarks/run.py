"""A run: store after store, workload after workload. Each figure is stored as soon as it is
measured."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from . import machine, workloads
from .bench import Bench
from .figures import About, Figure, Report
from .plan import sizes
from .progress import Progress
from .scene import Failed, Lab
from .servers import NoServer, start
from .workloads import WORKLOADS

_SHM = Path("/dev/shm")


class Wish(Struct, frozen=True, kw_only=True):
    """The options of a run."""

    stores: list[str]
    workloads: list[str]
    json: Path
    quick: bool = False
    jobs: int | None = None
    waiting: int | None = None
    repeat: int | None = None
    concurrency: int = 100
    aof: str = "everysec"
    pin: bool = True
    awake: bool = True
    quiet: float = 0.0
    folder: Path | None = None


def run(wish: Wish) -> Report:
    """Measure everything. Ctrl-C and SIGTERM end it early; the figures so far are kept."""
    report = Report(started=_now())
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _lab(wish, report) as (lab, progress):
            for store in wish.stores:
                _measure(store, wish, lab, progress, report)
    except KeyboardInterrupt:
        report.stopped = True
    finally:
        signal.signal(signal.SIGTERM, before)
        report.ended = _now()
        report.write(wish.json)
    return report


@contextmanager
def _lab(wish: Wish, report: Report) -> Iterator[tuple[Lab, Progress]]:
    """Make the folders, and collect the facts about the machine."""
    with ExitStack() as stack:
        if wish.folder is not None:
            stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
            # the servers create their folders there too
            tempfile.tempdir = str(wish.folder.resolve())
        folder = _temporary(stack, None)
        shm = _temporary(stack, _SHM if os.access(_SHM, os.W_OK) else None)
        report.machine = machine.facts(folder)
        core = max(os.sched_getaffinity(0)) if wish.pin else None
        progress = Progress(len(wish.stores) * (len(wish.workloads) + 1))
        report.settings = {
            "concurrency": wish.concurrency,
            "pinned to core": "no" if core is None else core,
            "kept awake for single jobs": "yes" if wish.awake else "no",
            "quick": "yes" if wish.quick else "no",
        }
        lab = Lab(
            folder=folder,
            shm=shm,
            watch=progress,
            core=core,
            concurrency=wish.concurrency,
            quiet=wish.quiet,
            awake=wish.awake,
        )
        yield lab, progress


def _temporary(stack: ExitStack, inside: Path | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mita-bench-", dir=inside))
    folder.chmod(0o711)
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _measure(store: str, wish: Wish, lab: Lab, progress: Progress, report: Report) -> None:
    """Measure all workloads of one store. If there is no server for a store, that is reported
    and the run continues."""
    about = report.stores[store] = About()
    try:
        engine = start(store, wish.aof)
    except NoServer as error:
        _leave_out(about, store, str(error), progress)
        return
    try:
        about.server, about.settings = engine.version, engine.settings
        wanted = sizes(
            store, quick=wish.quick, jobs=wish.jobs, waiting=wish.waiting, repeat=wish.repeat
        )
        bench = Bench(store, engine, lab, wanted, report)
        _figures(bench, "raw", workloads.raw, wish.json, progress)
        if (trouble := _trouble(bench)) is not None:
            _leave_out(about, store, trouble, progress)
            return
        for name in wish.workloads:
            _one(bench, name, wish.json, progress)
    finally:
        engine.close()


def _leave_out(about: About, store: str, why: str, progress: Progress) -> None:
    about.skipped = f"left out: {why}"
    progress.say(f"{store}: left out: {why}")


def _trouble(bench: Bench) -> str | None:
    """Why Mita cannot use this store."""
    try:
        with bench.scene() as scene:
            scene.ask("count")
    except (Failed, NoServer) as error:
        return f"Mita cannot use it: {error}"
    return None


def _one(bench: Bench, name: str, json: Path, progress: Progress) -> None:
    if WORKLOADS[name].only not in ("", bench.store):
        progress.skip(f"{bench.store} {name}: is about {WORKLOADS[name].only}")
        return
    if WORKLOADS[name].processes and not bench.engine.shared:
        progress.skip(f"{bench.store} {name}: needs a store that processes can share")
        return
    _figures(bench, name, WORKLOADS[name].run, json, progress)


def _figures(
    bench: Bench,
    name: str,
    measure: Callable[[Bench], Iterator[Figure]],
    json: Path,
    progress: Progress,
) -> None:
    """Yield each figure as it is measured. A workload that fails has a figure without a value
    that says why."""
    progress.begin(bench.store, name)
    try:
        for figure in measure(bench):
            _keep(bench, figure, json, progress)
    except Exception as error:  # noqa: BLE001
        # an error of one workload must not end the others
        why = (
            str(error)
            if isinstance(error, Failed | NoServer)
            else f"{type(error).__name__}: {error}"
        )
        _keep(bench, bench.figure(name, name).failed(why), json, progress)


def _keep(bench: Bench, figure: Figure, json: Path, progress: Progress) -> None:
    bench.report.figures.append(figure)
    bench.report.write(json)
    progress.found(figure)


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
