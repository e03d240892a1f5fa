"""`make bench` runs, checks what it measures, and leaves a document that programs can read. No
figure is judged here."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from benchmarks.__main__ import main
from benchmarks.bench import Bench, Drain, slices
from benchmarks.figures import About, Cost, Figure, Noise, Report, Slice
from benchmarks.plan import sizes
from benchmarks.plots import draw_all
from benchmarks.scene import Drained
from benchmarks.servers import STORES, NoServer, Postgres
from benchmarks.svg import steps
from benchmarks.table import footer
from benchmarks.workloads import WORKLOADS

from tests.waiting import wait_until

HOME = Path(__file__).parents[2]


def bench(*arguments: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "benchmarks", "--no-awake", *arguments]
    return subprocess.Popen(
        argv, cwd=HOME, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_quick_drain_gives_a_table_and_a_document(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    run = bench(
        "--quick",
        "--stores",
        "memory,sqlite",
        "--workloads",
        "drain",
        "--jobs",
        "2000",
        "--json",
        str(file),
    )
    out, err = run.communicate(timeout=100)
    assert run.returncode == 0, err
    assert "drain, async handlers" in out
    assert "raw loop: drain" in out
    report = Report.read(file)
    assert not report.stopped
    assert set(report.stores) == {"memory", "sqlite"}
    assert {"cpu", "cores", "python", "libraries", "load_average", "commit"} <= set(report.machine)
    [raw] = [figure for figure in report.find("sqlite", "raw") if figure.name == "raw loop: drain"]
    [drain] = report.find("sqlite", "drain")
    assert (drain.ok, drain.problems, drain.jobs, drain.unit) == (True, [], 2000, "jobs/s")
    assert drain.raw == raw.value
    assert drain.value is not None
    assert drain.share is not None
    assert drain.cost is not None
    assert drain.cost.worker_cpu is not None
    assert len(drain.cost.worker_rss) == 3
    assert drain.cost.store_full
    assert drain.noise is not None
    assert report.find("memory", "drain")[0].ok


def test_special_jobs_are_compared_with_plain_ones_and_every_look_has_a_figure(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bench.json"
    chosen = ["--stores", "sqlite", "--workloads", "retries,looks,amend"]
    sizes = ["--jobs", "200", "--waiting", "1000", "--repeat", "1"]
    run = bench("--quick", *chosen, *sizes, "--json", str(file))
    _, err = run.communicate(timeout=100)
    assert run.returncode == 0, err
    figures = [figure for figure in Report.read(file).figures if figure.workload != "raw"]
    assert all(figure.ok and figure.value for figure in figures)
    compared = {figure.name for figure in figures if figure.against and figure.share}
    assert compared == {"retries (fail once, succeed)"}
    assert {figure.name for figure in figures} - compared == {
        "counts with 1,000 jobs",
        "queues with 1,000 jobs",
        "explain with 1,000 jobs",
        "first page with 1,000 jobs",
        "bytes per waiting job",
        "priority of 1,000 jobs",
        "reschedule of 1,000 jobs",
        "cancel of 1,000 jobs",
    }


def test_a_run_that_is_stopped_leaves_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    run = bench("--quick", "--stores", "sqlite", "--jobs", "1000", "--json", str(file))
    wait_until(file.exists)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "the run was stopped" in out
    assert Report.read(file).stopped
    assert Report.read(file).figures


@pytest.mark.parametrize(("option", "known"), [("--stores", STORES), ("--workloads", WORKLOADS)])
def test_a_wrong_name_is_answered_with_the_right_ones(
    option: str, known: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([option, "nonsense"])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert "'nonsense'" in said
    assert all(name in said for name in known)


def test_a_store_without_a_server_is_named_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(self: Postgres) -> None:
        raise NoServer("no PostgreSQL on this machine")

    monkeypatch.setattr(Postgres, "__init__", none)
    file = tmp_path / "bench.json"
    options = [
        "--quick",
        "--no-awake",
        "--workloads",
        "drain",
        "--jobs",
        "200",
        "--json",
        str(file),
    ]
    assert main(["--stores", "memory,postgres", *options]) == 0
    assert "no PostgreSQL on this machine" in capsys.readouterr().out
    report = Report.read(file)
    assert report.stores["postgres"].skipped
    assert report.find("memory", "drain")


def test_side_by_side_each_round_begins_with_another_and_is_set_against_its_own_plain_one() -> None:
    """The machine gets slower by half from round to round, and nothing of that is seen."""
    began: list[str] = []

    class Machine(Bench):
        def _drains(self, want: Drain, processes: int) -> Iterator[Drained]:
            round = len(began) // 2
            began.append(want.watched)
            cpu = 0.01 * 2**round * (1.1 if want.watched else 1.0)
            yield Drained(
                jobs=processes,
                seconds=cpu * 1.5,
                cost=Cost(worker_cpu=cpu),
                noise=Noise(foreign=0, steal=0, load=0),
                problems=[],
                ends=[],
            )

    machine = Machine(
        "memory",
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        sizes("memory", quick=True, jobs=1, waiting=None, repeat=3),
        Report(),
    )
    wants = [
        (Figure(store="memory", workload="watched", name=name), Drain(jobs=1, watched=name))
        for name in ("", "metrics")
    ]
    plain, watched = machine.side_by_side(wants, 3)
    assert began == ["", "metrics", "metrics", "", "", "metrics"]
    assert (plain.against, plain.against_cpu) == (1.0, 1.0)
    assert (watched.against, watched.against_cpu) == (0.909, 1.1)


# ---------------------------------------------------------------- plots


def a_report() -> Report:
    report = Report(
        started="2026-01-01", machine={"cpu": "c", "cores": 2, "python": "p", "commit": "<&>"}
    )
    for store, rate in {"sqlite": 40_000.0, "redis": 80_000.0}.items():
        report.stores[store] = About(server=store)
        more = {"store": store, "name": "raw loop: drain", "value": rate}
        found: list[dict[str, Any]] = [{"workload": name} for name in ("raw", "drain", "sync")]
        found += [{"workload": "processes", "processes": number} for number in (1, 2, 4)]
        found += [
            {"workload": "scheduled", "waiting": waiting} for waiting in (0, 10_000, 1_000_000)
        ]
        report.figures += [msgspec.convert({**more, **each}, Figure) for each in found]
        parts = [Slice(waiting=waiting, cost=20.0) for waiting in (1_000_000, 10_000)]
        report.figures.append(
            Figure(store=store, workload="ready", name="ready", value=rate, slices=parts)
        )
    return report


def test_the_foot_says_where_growth_was_not_measured_as_far_as_elsewhere() -> None:
    report = a_report()
    report.machine = {}
    report.stores["nats"] = About(server="nats")
    report.figures.append(
        Figure(store="nats", workload="scheduled", name="scheduled", value=9000.0, waiting=200_000)
    )
    said = [line for line in footer(report) if "growth up to" in line]
    assert said == [
        "nats: nats; growth up to 200,000 waiting jobs: to load more takes minutes for each figure"
    ]


def test_the_plots_are_pictures_with_words_for_those_who_cannot_see_them(tmp_path: Path) -> None:
    drawn = list(draw_all(a_report(), tmp_path))
    assert [path.name for path in drawn] == [
        "drain.svg",
        "processes.svg",
        "growth-ready.svg",
        "growth-scheduled.svg",
    ]
    for path in drawn:
        text = path.read_text()
        root = ElementTree.fromstring(text)
        assert root.find("{*}title") is not None
        assert "Redis" in (root.findtext("{*}desc") or "")
        assert "prefers-color-scheme:dark" in text
        assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_without_figures_there_is_no_plot(tmp_path: Path) -> None:
    assert not list(draw_all(Report(machine=a_report().machine), tmp_path))


@pytest.mark.parametrize("most", [0.7, 9.0, 63.0, 240_000.0, 1_000_000.0])
def test_an_axis_has_a_few_round_steps_that_reach_the_top(most: float) -> None:
    found = steps(most)
    assert found[0] == 0
    assert found[-1] >= most
    assert 2 <= len(found) <= 7


def test_a_steady_drain_costs_the_same_at_every_depth() -> None:
    ends = [i * 25_000 for i in range(100_000)]
    assert {part.cost for part in slices(ends)} == {25.0}
    assert [part.waiting for part in slices(ends)] == [100_000, 50_000, 20_000, 10_000]
