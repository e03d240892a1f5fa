"""The benchmark of one store: makes measurements and turns them into figures."""

import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .figures import Cost, Figure, Noise, Report, Slice, Spread
from .loading import FLOWS
from .plan import Sizes
from .processes import Window
from .raw import BATCH_JOBS, RAW, Ask, Phase
from .scene import Drained, Failed, Lab, Scene, noise
from .servers import Engine

RAW_NAMES = {
    "one": "raw loop: enqueue one by one",
    "bulk": "raw loop: enqueue in bulk",
    "drain": "raw loop: drain",
}


class Drain(Struct, frozen=True, kw_only=True):
    """What to drain: each job runs `runs` times, beside `scheduled` others that must not run.
    `like_raw`: the raw loop does the same work, so that a share of it means something. `watched`:
    which of metrics, listener and events are switched on (`roles.WATCHED`)."""

    jobs: int
    task: str = "noop"
    runs: int = 1
    keep: float = 0.0
    scheduled: int = 0
    repeat: int = 1
    like_raw: bool = True
    watched: str = ""


class Bench:
    """`report` has the figures so far; the raw loop of the same run is looked up in it."""

    def __init__(self, store: str, engine: Engine, lab: Lab, sizes: Sizes, report: Report) -> None:
        self.store, self.engine, self.lab, self.sizes, self.report = (
            store,
            engine,
            lab,
            sizes,
            report,
        )

    def figure(self, workload: str, name: str, **more: Any) -> Figure:
        at = datetime.now().astimezone().isoformat(timespec="seconds")
        return Figure(store=self.store, workload=workload, name=name, at=at, **more)

    def scene(self, jobs: int = 0, keep: float = 0.0) -> Scene:
        return Scene(self.lab, self.engine, jobs, keep)

    def _raw_found(self, phase: str) -> Figure | None:
        found = [raw for raw in self.report.find(self.store, "raw") if raw.name == RAW_NAMES[phase]]
        return found[-1] if found else None

    def _beside_raw(self, figure: Figure, phase: str) -> Figure:
        raw = self._raw_found(phase)
        figure.raw = raw.value if raw is not None else None
        if figure.raw and figure.value:
            figure.share = round(100 * figure.value / figure.raw, 1)
        return figure

    # ------------------------------------------------------------ drains

    def drain(self, figure: Figure, want: Drain) -> Figure:
        """Fill in a figure: jobs preloaded, then from the first start to the last end; the median
        of the repeats."""
        return self._filled(figure, want, list(self._drains(want, figure.processes)))

    def drain_by_turns(self, figure: Figure, want: Drain, raw_jobs: int) -> Figure:
        """Like `drain`, with the raw loop again after each drain. The share is the median of
        these pairs, because the speed of a machine changes less within a pair than within a run."""
        drains, raws = [], []
        for drained in self._drains(want, figure.processes):
            drains.append(drained)
            if self.store in RAW:
                raws.append(self._raw_phases(raw_jobs, 0.1)[0]["drain"].rate)
        if raws and (raw := self._raw_found("drain")) is not None:
            raw.values += raws
            raw.value = statistics.median_low(raw.values)
        self._filled(figure, want, drains)
        if raws:
            shares = [100 * drained.rate / rate for drained, rate in zip(drains, raws, strict=True)]
            figure.share = round(statistics.median_low(shares), 1)
        return figure

    def drain_beside(self, figure: Figure, want: Drain, plain: Drain) -> Figure:
        """Like `drain`, followed each time by a plain drain with one worker. The figure has the
        median ratio of these pairs."""
        drains, against = [], []
        for drained in self._drains(want, figure.processes):
            drains.append(drained)
            [other] = self._drains(replace(plain, repeat=1), 1)
            against.append(drained.rate / other.rate)
        self._filled(figure, want, drains)
        figure.against = round(statistics.median_low(against), 3)
        return figure

    def side_by_side(self, wants: Sequence[tuple[Figure, Drain]], rounds: int) -> Iterator[Figure]:
        """Run all of them in turn, `rounds` times, each round beginning with another one, so that a
        slow minute affects all of them. Each is compared with the first, round by round."""
        drains: list[list[Drained]] = [[] for _ in wants]
        for turn in range(rounds):
            for at in range(turn, turn + len(wants)):
                figure, want = wants[at % len(wants)]
                drains[at % len(wants)] += self._drains(want, figure.processes)
        for (figure, want), mine in zip(wants, drains, strict=True):
            self._filled(figure, want, mine)
            figure.against = _median(
                one.rate / plain.rate for one, plain in zip(mine, drains[0], strict=True)
            )
            pairs = [
                (one.cost.worker_cpu, plain.cost.worker_cpu)
                for one, plain in zip(mine, drains[0], strict=True)
            ]
            figure.against_cpu = _median(cpu / plain for cpu, plain in pairs if cpu and plain)
            yield figure

    def _filled(self, figure: Figure, want: Drain, drains: list[Drained]) -> Figure:
        figure.values = [drained.rate for drained in drains]
        figure.value = statistics.median_low(figure.values)
        figure.waiting = want.scheduled
        median = next(drained for drained in drains if drained.rate == figure.value)
        figure.jobs, figure.seconds, figure.cost, figure.noise = (
            median.jobs,
            median.seconds,
            median.cost,
            median.noise,
        )
        figure.slices = slices(median.ends)
        figure.failed(*dict.fromkeys(problem for drained in drains for problem in drained.problems))
        return self._beside_raw(figure, "drain") if want.like_raw else figure

    def _drains(self, want: Drain, processes: int) -> Iterator[Drained]:
        """Each repeat uses a fresh store, or all use one if it takes long to fill."""
        waves = want.repeat if want.scheduled and self.engine.shared else 1
        for _ in range(1 if want.scheduled else want.repeat):
            with self.scene(want.jobs * waves, want.keep) as scene:
                scene.load(want.scheduled, want.task, scheduled=True)
                for wave in range(waves):
                    first, last = wave * want.jobs, (wave + 1) * want.jobs
                    scene.load(want.jobs, want.task, first=first)
                    yield scene.drain(
                        first,
                        last,
                        runs=want.runs,
                        processes=processes,
                        watched=want.watched,
                        # a flow's own job may still wait when its last step has run
                        count=wave == waves - 1 and want.task not in FLOWS,
                    )

    # ------------------------------------------------------------ other kinds

    def clocked(self, figure: Figure, role: str, most: int = 0) -> Figure:
        """How many jobs a producer enqueues in a fixed time."""
        answers = []
        for _ in range(self.sizes.repeat):
            awake = self.lab.kept_awake() if role == "one" else nullcontext()
            with self.scene() as scene, awake, Window() as window:
                scene.calm()
                answers.append(
                    scene.ask(role, core=self.lab.core, seconds=self.sizes.seconds, most=most)
                )
        figure.values = [answer["jobs"] / answer["seconds"] for answer in answers]
        figure.value = statistics.median_low(figure.values)
        last = answers[-1]
        figure.jobs, figure.seconds, figure.noise = last["jobs"], last["seconds"], noise(window)
        figure.cost = Cost(worker_cpu=last["cpu"] / last["jobs"] * 1000)
        if took := sorted(each for answer in answers for each in answer.get("took", ())):
            figure.spread = spread(took)
        return self._beside_raw(figure, role)

    def paced(self, figure: Figure, role: str, jobs: int) -> Figure:
        """How late single jobs from another process start."""
        with self.scene(jobs) as scene, self.lab.kept_awake():
            late, figure.noise, problems = scene.paced(role)
        if not late:
            raise Failed("no job ran")
        figure.jobs, figure.spread = jobs, spread(late)
        figure.value, figure.values = figure.spread.p50, [figure.spread.p50]
        if figure.spread.early:
            problems.append(f"{figure.spread.early:,} jobs started before their time")
        return figure.failed(*problems)

    def repeats(self, figure: Figure, repeats: int, seconds: float) -> Figure:
        """How late the jobs of this many repeats are enqueued."""
        with self.scene() as scene, self.lab.kept_awake(), Window() as window:
            scene.calm()
            answer = scene.ask("repeats", core=self.lab.core, most=repeats, seconds=seconds)
        if not answer["late"]:
            raise Failed("nothing fired")
        figure.jobs, figure.seconds, figure.noise = answer["fires"], seconds, noise(window)
        figure.spread = spread(answer["late"])
        figure.value, figure.values = figure.spread.p50, [figure.spread.p50]
        if answer["passed_over"]:
            figure.failed(
                f"{answer['passed_over']:,} times a repeat came so late that windows were passed "
                "over"
            )
        return figure

    def with_jobs(self, jobs: int, role: str, **brief: Any) -> tuple[Any, int | None, Noise]:
        """What a role answers about a store in which this many jobs wait, and the bytes that
        the store takes."""
        with self.scene(jobs) as scene:
            scene.load(jobs)
            scene.place.settle()
            scene.calm()
            size = scene.place.size()
            with Window() as window:
                answer = scene.ask(role, core=self.lab.core, **brief)
        return answer, size, noise(window)

    def bloat(self, figure: Figure, jobs: int, task: str, beside: str = "") -> Figure:
        """The cost of a claimed job after more and more jobs have been processed."""
        with self.scene() as scene, Window() as window:
            scene.calm()
            answer = scene.ask(
                "bloat", total=jobs, core=self.lab.core, most=jobs, task=task, beside=beside
            )
        curve = answer["curve"]
        figure.jobs, figure.noise = jobs, noise(window)
        figure.slices = [Slice(waiting=moved, cost=cost) for moved, cost in curve]
        figure.values = [round(1e6 / cost) for _, cost in curve]
        figure.value = figure.values[-1]
        figure.against = round(figure.values[-1] / figure.values[0], 3)
        return figure

    def raw(self, jobs: int) -> list[Figure]:
        """The raw loop of the engine, in a process of its own as a worker would be."""
        runs = [self._raw_once(jobs) for _ in range(self.sizes.repeat)] if self.store in RAW else []
        return [self._raw_figure(phase, runs) for phase in RAW_NAMES if runs]

    def _raw_once(self, jobs: int) -> tuple[dict[str, Phase], Noise]:
        """Run each phase under the same conditions as the workload it is compared with."""
        with self.lab.kept_awake():
            single, _ = self._raw_phases(BATCH_JOBS, self.sizes.seconds)
        many, heard = self._raw_phases(jobs, 0.1)
        return many | {"one": single["one"]}, heard

    def _raw_phases(self, jobs: int, seconds: float) -> tuple[dict[str, Phase], Noise]:
        with self.scene() as scene:
            scene.calm()
            place = scene.place
            ask = Ask(
                url=place.url, jobs=jobs, seconds=seconds, core=self.lab.core, server=place.pid
            )
            argv = [
                sys.executable,
                "-m",
                "benchmarks.raw",
                self.store,
                msgspec.json.encode(ask).decode(),
            ]
            with Window() as window:
                said = scene.run("raw", argv)
        return msgspec.json.decode(said, type=dict[str, Phase]), noise(window)

    def _raw_figure(self, phase: str, runs: list[tuple[dict[str, Phase], Noise]]) -> Figure:
        values = [phases[phase].rate for phases, _ in runs]
        median = statistics.median_low(values)
        phases, heard = next(run for run in runs if run[0][phase].rate == median)
        found = phases[phase]
        server = None if found.server_cpu is None else found.server_cpu / found.jobs * 1000
        figure = self.figure(
            "raw",
            RAW_NAMES[phase],
            value=median,
            values=values,
            jobs=found.jobs,
            seconds=found.seconds,
        )
        figure.cost, figure.noise = (
            Cost(worker_cpu=found.cpu / found.jobs * 1000, server_cpu=server),
            heard,
        )
        return figure


def _median(ratios: Iterable[float]) -> float | None:
    found = list(ratios)
    return round(statistics.median(found), 3) if found else None


def spread(ordered: Sequence[float]) -> Spread:
    def rank(percent: int) -> float:
        return round(ordered[max(0, -(-len(ordered) * percent // 100) - 1)], 3)

    early = sum(1 for value in ordered if value < 0)
    return Spread(
        least=rank(0), p50=rank(50), p90=rank(90), p99=rank(99), most=rank(100), early=early
    )


_DEPTHS_JOBS = (1_000_000, 500_000, 200_000, 100_000, 50_000, 20_000, 10_000)
_SLICE_SHARE = 0.1  # the share of the waiting jobs that one measured slice covers


def slices(ends: Sequence[int]) -> list[Slice]:
    """The cost of a job by the number of waiting jobs, from the end times of the jobs of one drain.
    The first and the last jobs are left out, because the worker then starts up or runs out of
    jobs."""
    found = []
    for depth in _DEPTHS_JOBS:
        width = int(depth * _SLICE_SHARE)
        first = len(ends) - depth
        if first < 0 or len(ends) < 2 * min(_DEPTHS_JOBS):
            continue
        first = max(first, len(ends) // 100)
        found.append(
            Slice(waiting=depth, cost=round((ends[first + width] - ends[first]) / width / 1000, 3))
        )
    return found
