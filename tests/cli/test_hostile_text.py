"""Text from jobs cannot control a terminal or imitate a line of Mita: every command, with
hostile text in every stored field."""

import asyncio
import json
import logging
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mita import JobFailed, Mita
from mita.cli import grammar
from mita.model.flow import FlowPlace
from mita.model.gate import Gate, StoredLimit
from mita.model.job import NewJob, State
from mita.model.outcome import CancelJob, Counter, Progress, Settlement, TimelineKind, Verdict
from mita.model.repeat import Repeat
from mita.model.time import HOUR, LATEST, When
from mita.model.view import WorkerView
from mita.ports.ids import new_id
from mita.ports.store import Store
from mita.printable import printable, printable_json, printable_lines
from mita.rules.flow import FLOW_TASK, step_id
from mita.rules.flow_plan import FlowSpec, pack_spec
from mita.rules.labels import with_tags
from mita.rules.options import with_flow
from tests.waiting import wait_until

from .conftest import Run
from .processes import TIMEOUT_S, Running

FORGED = "2026-11-15 INFO forged"
# A window title, a colour, an 8-bit escape, both kinds of direction marks, a bell, a delete, a
# carriage return, a new line.
HOSTILE = f"evil \x1b]0;owned\x07\x1b[31m\x9b2J\u202edaolyap\u2066\x7f\u2028\r\n{FORGED}"
MESSAGE = msgspec.msgpack.encode

BAD_SHOP = f"""
from mita import Job, Mita, Reschedule, Retry

HOSTILE = {HOSTILE!r}
app = Mita("sqlite:///jobs.db", retry=Retry(max_retries=1, waits=(0.0,)))


class Evil(Exception):
    pass


@app.task
async def fail(job: Job) -> None:
    await job.progress(1, 2, HOSTILE)
    raise Evil(HOSTILE)


@app.task(retry=Retry(max_retries=1, wait=lambda n, error: {{}}[HOSTILE]))
async def fail_oddly() -> None:
    raise Evil(HOSTILE)


@app.task
def move(job: Job) -> Reschedule | None:
    return None if job.reschedules else Reschedule(after=0, reason=HOSTILE)


def listener(event: object) -> None:
    raise Evil(HOSTILE)


app.listen(listener, kinds=["failed"])
"""


def is_clean(text: str) -> bool:
    """Whether the text has only printable characters and line breaks, and no line that looks
    like one of Mita's own."""
    return all(c.isprintable() for c in text.replace("\n", "")) and not re.search(
        rf"^{FORGED}", text, re.MULTILINE
    )


@pytest.mark.parametrize("clean", [printable, printable_lines])
def test_cleaned_text_is_printable_and_shows_the_escapes(clean: Callable[[str], str]) -> None:
    assert is_clean(clean(HOSTILE))
    assert "\\x1b]0;owned\\x07" in clean(HOSTILE)
    assert "\\u202e" in clean(HOSTILE)
    assert clean("naïve ✓ 日本") == "naïve ✓ 日本"


@pytest.mark.parametrize("text", [HOSTILE, "\U000e0041\ud800", "naïve", '"\\'])
def test_json_is_printable_and_exact(text: str) -> None:
    document = printable_json(json.dumps({"text": text}, ensure_ascii=False))
    assert is_clean(document)
    assert json.loads(document) == {"text": text}


# ---------------------------------------------------------------- every command


async def put_flow(store: Store, common: dict[str, Any], error: str) -> dict[str, str]:
    """Store a flow of three steps: one failed, one is ready, one waits for both. Returns their
    ids."""
    flow = new_id()
    places = [FlowPlace(flow, 0), FlowPlace(flow, 1), FlowPlace(flow, 2)]
    places.append(FlowPlace(flow, 3, 2, predecessors=((1, 2),)))
    ids = {f"step {place.number}": step_id(flow, place.number) for place in places}
    jobs = [
        NewJob(
            id=id,
            **{**common, "options": with_flow(b"", place)},
            when=When(at=LATEST if place.needs or not place.number else 0),
        )
        for id, place in zip(ids.values(), places, strict=True)
    ]
    spec = pack_spec(FlowSpec(HOSTILE, 3, 4, 3))
    await store.enqueue([replace(jobs[0], task=FLOW_TASK, payload=spec), *jobs[1:]])
    [claim] = (await store.claim([common["queue"]], 1, HOUR, HOSTILE)).claims
    verdict = Verdict(state=State.FAILED, counts=Counter.ATTEMPTS, error=error, keep=HOUR)
    await store.settle([Settlement(claim, verdict)])
    return ids


async def fill(store: Store) -> dict[str, str]:
    """Store jobs in every state, a worker and repeats, with hostile text in every text field.
    Returns the ids."""
    common: dict[str, Any] = {
        "task": f"t{HOSTILE}",
        "queue": f"q{HOSTILE}",
        "payload": MESSAGE({HOSTILE: HOSTILE}),
        "options": with_tags(b"", (HOSTILE,)),
        "tags": (HOSTILE,),
    }
    names = ("failed", "cancelled", "running", "blocked", "ready", "scheduled")
    ids = {name: new_id() for name in names}
    view = WorkerView(
        id=HOSTILE,
        name=f"w{HOSTILE}",
        host=HOSTILE,
        pid=1,
        queues=(common["queue"], HOSTILE),
        tasks=(HOSTILE,),
        slots=1,
        offset=HOUR,
        version=HOSTILE,
        rates={HOSTILE: 1.0},
    )

    async def put(name: str, **more: object) -> None:
        job = NewJob(id=ids[name], **{**common, "repeat": HOSTILE, "fire_time": 0, **more})  # type: ignore[arg-type]
        await store.enqueue([job])

    async def end(verdict: Verdict) -> None:
        [claim] = (await store.claim([common["queue"]], 1, HOUR, HOSTILE)).claims
        await store.settle([Settlement(claim, verdict)])

    await put("failed", unique=f"u{HOSTILE}", unique_for=HOUR)
    error = f"Evil{HOSTILE}\n  File {HOSTILE}"
    await end(
        Verdict(
            state=State.FAILED,
            counts=Counter.ATTEMPTS,
            error=error,
            keep=HOUR,
            event=TimelineKind.FAILED,
            note=HOSTILE,
        )
    )
    ids |= await put_flow(store, {**common, "queue": f"flows{HOSTILE}"}, error)
    await put("cancelled")
    await store.amend([ids["cancelled"]], CancelJob(HOUR, HOSTILE))
    await put("running", resource=f"r{HOSTILE}")
    [claim] = (await store.claim([common["queue"]], 1, HOUR, HOSTILE)).claims
    await store.progress([Progress(claim, MESSAGE((1, 2, HOSTILE)))])
    gates = (Gate(f"g{HOSTILE}", 1, 1000, 1),)
    await put("blocked", resource=f"r{HOSTILE}", gates=gates, fair=f"f{HOSTILE}")
    await store.limit([common["queue"]], f"l{HOSTILE}", StoredLimit(concurrency=1))
    await store.limit([f"l{HOSTILE}"], None, StoredLimit(concurrency=1))
    await store.claim([common["queue"]], 1, HOUR, HOSTILE)
    await put("ready")
    await put("scheduled", when=When(HOUR))
    await store.beat(view, HOUR)
    await store.put_repeat(
        Repeat(key=f"k{HOSTILE}", spec=HOSTILE.encode(), cursor=None, reason=HOSTILE)
    )
    return ids


@pytest.fixture
def ids(project: Path) -> dict[str, str]:
    async def make() -> dict[str, str]:
        async with Mita("sqlite:///jobs.db") as app:
            store = await app.open_store()
            try:
                return await fill(store)
            finally:
                await store.close()

    return asyncio.run(make())


def commands(ids: dict[str, str]) -> list[tuple[str, ...]]:
    key, queue, repeat = f"r{HOSTILE}", f"q{HOSTILE}", f"k{HOSTILE}"
    each = [
        (word, *more, id)
        for word, *more in (("show",), ("show", "--args"), ("why",))
        for id in ids.values()
    ]
    acts = [
        ("reschedule", ids["ready"], "--after", "2h", "--reason", HOSTILE),
        ("reschedule", ids["failed"], HOSTILE, "--after", "1h"),
        ("cancel", ids["scheduled"], "--reason", HOSTILE),
        ("cancel", HOSTILE),
        ("retry", ids["step 0"], "--reason", HOSTILE),
        ("cancel", ids["step 0"], "--reason", HOSTILE),
        ("why", ids["step 3"]),
        ("signal", ids["ready"], HOSTILE, "1"),
        ("signal", ids["ready"], "go", HOSTILE),
        ("signal", ids["ready"], "go", json.dumps(HOSTILE)),
        ("signal", ids["failed"], "go", "1"),
        ("show", ids["ready"]),
        ("amend", ids["ready"], f"name={HOSTILE}", "--app", "shop:app"),
        ("amend", HOSTILE, "name=1"),
        ("retry", "--all", "--error", HOSTILE, "--rate", HOSTILE),
        ("delete", HOSTILE),
        ("delete", "--all", "--dry-run", "--error", HOSTILE),
        ("retry", ids["cancelled"]),
        ("retry", "--all", "--yes", "--error", HOSTILE),
        ("retry", "--all", "--dry-run", "--queue", HOSTILE),
        ("delete", HOSTILE),
        ("delete", "--all", "--dry-run", "--queue", HOSTILE),
    ]
    lists = [
        ("jobs",),
        ("jobs", "--queue", HOSTILE),
        ("jobs", "--limit", "1"),
        ("jobs", "--after", HOSTILE),
        ("dead",),
        ("dead", "--queue", HOSTILE),
        ("dead", HOSTILE),
        ("dead", "none"),
        ("jobs", "--group", HOSTILE),
        ("audit",),
        ("audit", "--who", HOSTILE),
        ("bulk",),
        ("bulk", HOSTILE),
        ("history",),
        ("history", "--queue", HOSTILE),
        ("flows",),
        ("flows", "--after", HOSTILE),
        ("queues",),
        ("keys",),
        ("keys", "--queue", HOSTILE),
        ("workers",),
        ("top", "--once"),
        ("doctor",),
        ("migrate",),
        ("repeats",),
        ("repeats", "explain", repeat),
        ("repeats", "next", repeat),
        ("repeats", "next", f"* {HOSTILE} * *"),
        ("repeats", "rm", HOSTILE),
        ("repeats", "trigger", repeat),
        ("repeats", "backfill", repeat, "--from", "2030-01-01", "--to", "2030-01-02"),
    ]
    others = [
        ("pause", HOSTILE, queue),
        ("resume", HOSTILE, queue),
        ("hold", key, "--after", "1h", "--queue", queue),
        ("hold", HOSTILE, "--after", HOSTILE),
        ("unhold", key),
        ("limit", "queue", HOSTILE, "--concurrency", "1"),
        ("limit", "queue", queue, "--rate", HOSTILE),
        ("limit", "key", key, "--concurrency", "1"),
        ("limit", "key", key, "--queue", HOSTILE, "--none"),
        ("enqueue", HOSTILE, "--app", "shop:app"),
        ("enqueue", "greet", HOSTILE, "--app", "shop:app"),
        ("enqueue", "greet", "a", "--app", f"shop:{HOSTILE}"),
        ("repeats", "add", repeat, "greet", HOSTILE, "--every", "1h", "--app", "shop:app"),
        ("jobs", "--url", f"sqlite:///{HOSTILE}.db"),
        ("jobs", "--url", HOSTILE),
        ("jobs", "--app", "bad_import:app"),
        ("check",),
        ("check", "--app", "bad_import:app"),
        ("check", "--app", "shop:app", "--worker", HOSTILE),
        ("completion", HOSTILE),
        ("web", f"shop:{HOSTILE}"),
        ("web", "shop:app", "--host", HOSTILE),
        ("outbox", "--app", HOSTILE),
        ("relay", HOSTILE),
        ("jobs", "--tag", HOSTILE),
        ("worker", HOSTILE),
        ("worker", "shop:app", "--name", HOSTILE),
        ("worker", "shop:app", "--queues", HOSTILE),
        ("scheduler", "shop:app", "--lock", HOSTILE),
        ("demo", "--keep", f"there {HOSTILE}"),
        (HOSTILE,),
    ]
    return [*lists, *each, *others, *acts, *lists]


def test_the_list_has_every_command(ids: dict[str, str]) -> None:
    [action] = [action for action in grammar()._actions if action.dest == "command"]
    assert action.choices is not None
    assert set(action.choices) <= {command[0] for command in commands(ids)}


@pytest.mark.parametrize("as_json", [False, True])
def test_no_command_prints_control_characters(
    mita: Run, project: Path, ids: dict[str, str], as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "bad_import.py").write_text(f"raise ValueError({HOSTILE!r})")
    (project / f"there {HOSTILE}").touch()
    shown = 0
    for command in commands(ids):
        said = mita(*command, *(["--json"] if as_json else []))
        assert is_clean(said.out), (command, said.out)
        assert is_clean(said.err), (command, said.err)
        shown += "\\x1b" in said.out + said.err or "\\u001b" in said.out
        if as_json:
            json.loads(said.out)
    assert shown > 40


def test_json_has_the_exact_text(mita: Run, ids: dict[str, str]) -> None:
    job = mita("show", ids["running"], "--json").data["job"]
    assert (job["task"], job["resource"], job["progress"][2]) == (
        f"t{HOSTILE}",
        f"r{HOSTILE}",
        HOSTILE,
    )


def test_the_traceback_of_a_bug_is_printed_without_control_characters(
    mita: Run, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr("mita.cli.inspect.CommandContext.now", broken)
    said = mita("jobs")
    assert (said.code, is_clean(said.err), is_clean(said.out)) == (1, True, True)
    assert "RuntimeError: evil \\x1b]0;owned" in said.err


SEQUENCES = re.compile(
    r"\x1b\[[0-9;?]*[A-Za-z]|\r\n"
)  # colours and cursor positions, which are our own


@pytest.mark.parametrize("words", [("jobs",), ("show",), ("why",), ("top",)])
def test_a_terminal_with_colours_gets_only_our_own_escapes(
    project: Path, ids: dict[str, str], words: tuple[str, ...]
) -> None:
    ours, theirs = pty.openpty()
    arguments = [*words, ids["running"]] if words[0] in ("show", "why") else words
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "600", "LINES": "60"}
    child = subprocess.Popen(
        [sys.executable, "-m", "mita", *arguments], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    written = b""
    while b"owned" not in written or b"\n" not in written.partition(b"owned")[2]:
        written += os.read(ours, 65536)
    child.send_signal(signal.SIGINT)
    child.wait(TIMEOUT_S)
    os.close(ours)
    assert "\\x1b]0;owned" in written.decode()
    assert is_clean(SEQUENCES.sub("\n", written.decode(errors="ignore"))), written


# ---------------------------------------------------------------- logs


@pytest.mark.parametrize("how", [["--log-level", "debug"], ["--log-json"], ["--processes", "2"]])
def test_the_log_of_a_worker_is_clean(
    project: Path, mita: Run, ids: dict[str, str], how: list[str]
) -> None:
    (project / "bad.py").write_text(BAD_SHOP)
    jobs = [
        mita("enqueue", task, "--app", "bad:app", "--json").data["id"]
        for task in ("fail", "fail_oddly", "move")
    ]
    worker = Running("bad:app", "--lease", "1", *how)
    try:
        ended = ("failed", "succeeded")
        wait_until(
            lambda: all(mita("show", id, "--json").data["job"]["state"] in ended for id in jobs)
        )
    finally:
        worker.signal(signal.SIGTERM)
        worker.ended()
        worker.close()
    log = "".join(worker.log)
    assert log.count("owned") > 5
    assert is_clean(log), log
    if how == ["--log-json"]:
        lines = [json.loads(line) for line in worker.log]
        assert any("owned" in line.get("error", "") for line in lines)


def test_the_log_of_a_program_with_its_own_handlers_is_clean(tmp_path: Path) -> None:
    path = tmp_path / "log"
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logging.getLogger("mita.worker")
    log.addHandler(handler)
    try:
        log.warning("job %s failed: %s", "1", ValueError(HOSTILE))
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            log.exception("the task %r failed", "send")
    finally:
        log.removeHandler(handler)
        handler.close()
    written = path.read_bytes().decode()
    assert is_clean(written)
    assert written.count("\\x1b]0;owned") == 2
    assert "the task 'send' failed\nTraceback" in written


def test_the_error_a_caller_sees_is_clean_and_keeps_the_text() -> None:
    error = JobFailed("1", HOSTILE)
    assert is_clean(str(error))
    assert error.error == HOSTILE
