"""Mita beside other queues: the JSON of the harness that runs them all, as tables and as a
picture."""

from typing import Any

from .charts import Bar, Words, bars
from .markdown import table
from .svg import Board

Peers = dict[str, Any]

_ENGINES = {"redis": "Redis", "postgres": "PostgreSQL", "sqlite": "SQLite", "memory": "memory"}
_RATES = {
    "add_one": "enqueue one",
    "add_bulk": "enqueue in bulk",
    "drain": "drain",
    "retry": "retries",
    "backlog": "drain beside 100,000 scheduled",
}
_DELAYS = {"pickup": "idle pick-up", "timer": "timer lateness"}


def whole_table(run: Peers) -> str:
    """One table for each database, the fastest drain first."""
    engines = list(dict.fromkeys(peer["engine"] for peer in run["peers"].values()))
    return "\n\n".join(
        f"**{_ENGINES[engine]}**\n\n{_engine_table(run, engine)}" for engine in engines
    )


def _engine_table(run: Peers, engine: str) -> str:
    measured = {name: run["summary"].get(name, {}) for name in _of(run, engine)}
    workloads = [
        name for name in (*_RATES, *_DELAYS) if any(name in found for found in measured.values())
    ]
    head = ["", *((_RATES | _DELAYS)[name] for name in workloads), "worker + server CPU per job"]
    rows = [
        [
            _bold(name),
            *(_peer_cell(found.get(workload), workload) for workload in workloads),
            _cpu(found.get("drain")),
        ]
        for name, found in measured.items()
    ]
    return table(head, rows)


def _of(run: Peers, engine: str) -> list[str]:
    """The queues on one database, the fastest first."""
    names = [name for name, peer in run["peers"].items() if peer["engine"] == engine]
    return sorted(names, key=lambda name: -_drain(run, name))


def _drain(run: Peers, name: str) -> float:
    found = run["summary"].get(name, {}).get("drain")
    return float(found["rate"]) if found else 0.0


def _bold(name: str) -> str:
    return f"**{name}**" if name.startswith("mita") else name


def _peer_cell(found: dict[str, Any] | None, workload: str) -> str:
    if found is None:
        return "-"
    checked = "" if found["ok"] else " (!)"
    return (
        f"{found['p50']:.2f} ms{checked}"
        if workload in _DELAYS
        else f"{found['rate']:,.0f}/s{checked}"
    )


def _cpu(drain: dict[str, Any] | None) -> str:
    if drain is None:
        return "-"
    parts = [drain["cpu_per_1000"], drain.get("server_cpu_per_1000")]
    return " + ".join(f"{part * 1000:,.0f}" for part in parts if part is not None) + " µs"


def conditions(run: Peers) -> str:
    meta = run["meta"]
    servers = "; ".join(server.split(" sha=")[0] for server in meta["servers"].values())
    versions = ", ".join(
        sorted(
            {
                version
                for peer in run["peers"].values()
                for version in peer["versions"]
                if "==" in version
            }
        )
    )
    return (
        f"- {meta['started'][:10]}: {meta['cpu']}, {meta['cpus']} cores, Python "
        f"{meta['python']}; {servers}; medians of {meta['repeat']}; other programs used "
        f"{meta.get('foreign_median', 0):.2f} cores at that time (median).\n- {versions}"
    )


def drains(runs: list[Peers]) -> str:
    """Only the drains: Mita, and the fastest other queue on each database."""
    rows = []
    for run in runs:
        for engine in dict.fromkeys(peer["engine"] for peer in run["peers"].values()):
            ours, *_ = [name for name in _of(run, engine) if name.startswith("mita")] or [""]
            others = [
                name
                for name in _of(run, engine)
                if not name.startswith("mita") and _drain(run, name)
            ]
            if ours and others:
                ratio = _drain(run, ours) / _drain(run, others[0])
                rest = ", ".join(f"{name} {_drain(run, name):,.0f}/s" for name in others)
                rows.append(
                    [_ENGINES[engine], f"{_drain(run, ours):,.0f}/s", rest, f"{ratio:.1f} x"]
                )
    return table(["", "Mita", "others", "Mita against the best of them"], rows)


def plot(runs: list[Peers]) -> Board:
    words = Words(
        title="Drained by one worker process, beside other queues",
        across="jobs per second",
        source=f"{runs[0]['meta']['cpu']}, {runs[0]['meta']['cpus']} cores; "
        f"{runs[0]['meta']['started'][:10]}",
    )
    groups = {
        _ENGINES[engine]: [
            Bar(name, "blue" if name.startswith("mita") else "grey", _drain(run, name))
            for name in _of(run, engine)
            if _drain(run, name)
        ]
        for run in runs
        for engine in dict.fromkeys(peer["engine"] for peer in run["peers"].values())
    }
    return bars(words, groups, named=True)
