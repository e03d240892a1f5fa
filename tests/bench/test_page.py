"""The tables in the docs are made from the documents of the runs."""

from benchmarks import beside, chains
from benchmarks.figures import About, Figure, Report
from benchmarks.markdown import filled
from benchmarks.page import joined, our_table

RUN = {
    "meta": {
        "cpu": "a CPU",
        "cpus": 2,
        "started": "2026-11-15T10:00:00",
        "python": "3.11",
        "servers": {"r": "Redis 7"},
        "repeat": 3,
    },
    "peers": {
        "slow": {"engine": "redis", "versions": ["slow==1"]},
        "mita-redis": {"engine": "redis", "versions": []},
        "broken": {"engine": "redis", "versions": []},
    },
    "summary": {
        "slow": {
            "drain": {"rate": 1000.0, "ok": True, "cpu_per_1000": 0.5, "server_cpu_per_1000": 0.02}
        },
        "mita-redis": {
            "drain": {"rate": 2500.0, "ok": True, "cpu_per_1000": 0.012},
            "pickup": {"p50": 1.25, "ok": False},
        },
    },
}


def test_a_part_goes_between_its_marks_and_nothing_else_is_touched() -> None:
    page = "above\n<!-- a -->\nold\n<!-- /a -->\nbelow\n<!-- b -->\nkept\n"
    assert filled(page, {"a": "new", "b": "without an end", "c": "not there"}) == page.replace(
        "old", "new"
    )


def test_the_fastest_stands_first_and_a_failed_check_is_marked() -> None:
    rows = beside.whole_table(RUN).splitlines()
    assert rows[0] == "**Redis**"
    assert rows[4] == "| **mita-redis** | 2,500/s | 1.25 ms (!) | 12 µs |"
    assert rows[5] == "| slow | 1,000/s | - | 500 + 20 µs |"


def test_the_short_table_names_the_best_other() -> None:
    assert beside.drains([RUN]).splitlines()[-1] == "| Redis | 2,500/s | slow 1,000/s | 2.5 x |"
    assert "2,500  mita-redis" in str(beside.plot([RUN]))


def test_what_is_set_against_the_plain_one_says_so_of_its_rate_and_of_its_cost() -> None:
    shared = {"store": "redis", "workload": "watched", "value": 900.0}
    plain = Figure(name="not at all", against=1.0, against_cpu=1.0, **shared)  # type: ignore[arg-type]
    watched = Figure(name="metrics", against=0.97, against_cpu=1.041, share=20, **shared)  # type: ignore[arg-type]
    rows = our_table(Report(stores={"redis": About()}, figures=[plain, watched])).splitlines()
    assert rows[2:] == ["| not at all | 900/s |", "| metrics | 900/s (20 %) (x 0.97, cpu x 1.04) |"]


def test_of_two_runs_the_later_figure_counts() -> None:
    first, second = (
        Report(
            stores={"redis": About()},
            figures=[Figure(store="redis", workload="drain", name="drain", value=value, share=50)],
        )
        for value in (1.0, 2.0)
    )
    assert our_table(joined([first, second])).splitlines()[-1] == "| drain | 2/s (50 %) |"


def test_chains_have_their_medians_and_all_readings() -> None:
    runs = [{"rate": rate, "cpu_ms": 0.5, "ok": rate > 1} for rate in (3000.0, 1.0, 2000.0)]
    figures = {"mita-redis": {"chain": runs, "group": runs[:1]}, "rq": {"chain": runs[2:]}}
    assert chains.medians(figures).splitlines()[2:] == [
        "| **mita-redis** | 2,000 (!) | 0.50 ms (!) | 3,000 | 0.50 ms |",
        "| rq | 2,000 | 0.50 ms | - | - |",
    ]
    assert chains.readings(figures).splitlines()[2:] == [
        "| mita-redis | 3,000 · 1 · 2,000 | 3,000 |",
        "| rq | 2,000 |  |",
    ]
