"""`jobs`, `show`, `why`."""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from mita import Mita
from mita.cli.ids import shortened
from mita.ports.ids import new_ids
from mita.printable import shell_command
from tests.waiting import wait_until

from .conftest import Run
from .processes import Running
from .test_screen import on_a_terminal

Put = Callable[..., str]
Work = Callable[[], None]


def test_jobs_are_listed_newest_first(mita: Run, enqueue: Put) -> None:
    ids = [enqueue("greet", name) for name in ("Ada", "Bo", "Cy")]
    assert [line.split()[0] for line in mita("jobs").out.splitlines()] == ["ID", *reversed(ids)]


def test_a_list_shows_state_time_task_queue_and_note_of_each_job(
    mita: Run, enqueue: Put, work_off: Work
) -> None:
    enqueue("charge", "1", "-5")
    work_off()
    enqueue("greet", "Ada", "--after", "300")
    header, later, failed = mita("jobs").out.splitlines()
    assert header.split() == ["ID", "STATE", "WHEN", "TASK", "QUEUE", "NOTE"]
    assert re.search("scheduled  in (5 m|4 m 5[0-9] s) ", later)
    assert "ago" in failed
    assert "charge" in failed
    assert "billing" in failed
    assert "ValueError: cannot charge less than nothing" in failed


def test_text_of_jobs_cannot_control_the_terminal(mita: Run, enqueue: Put, work_off: Work) -> None:
    id = enqueue("charge", "1", "-5")
    work_off()
    for said in (mita("jobs"), mita("show", id), mita("why", id)):
        assert "\x1b" not in said.out
        assert "\\x1b[31m" in said.out


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (["--queue", "billing"], 2),
        (["--task", "greet"], 2),
        (["--state", "failed"], 1),
        (["--state", "succeeded"], 2),
        (["--state", "scheduled"], 1),
        (["--state", "running"], 0),
        (["--resource", "account:2"], 1),
        (["--unique", "ada"], 1),
        (["--error", "less than nothing"], 1),
        (["--task", "greet", "--state", "scheduled"], 1),
    ],
)
def test_filters_choose_jobs(
    mita: Run, enqueue: Put, work_off: Work, chosen: list[str], count: int
) -> None:
    for words in (["charge", "1", "-5"], ["charge", "2", "5"], ["greet", "Ada", "--unique", "ada"]):
        enqueue(*words)
    work_off()
    enqueue("greet", "Bo", "--after", "1h")
    assert len(mita("jobs", *chosen, "--json").data["jobs"]) == count


def test_the_next_page_starts_after_the_last_id(mita: Run, enqueue: Put) -> None:
    ids = [enqueue("greet", str(n)) for n in "abcde"]
    first = mita("jobs", "--limit", "2", "--json").data
    second = mita("jobs", "--limit", "3", "--after", first["after"], "--json").data
    assert [job["id"] for job in first["jobs"] + second["jobs"]] == ids[::-1]
    assert second["after"] is None
    assert f"more: add --after {first['after']}" in mita("jobs", "--limit", "2").out


def test_an_empty_list_says_so(mita: Run) -> None:
    mita("migrate")
    assert mita("jobs").out == "no jobs\n"
    assert mita("jobs", "--task", "greet").out == "no jobs match\n"
    assert "queue 'typo' never had any" in mita("jobs", "--queue", "typo").out


def test_show_has_everything_except_the_arguments(mita: Run, enqueue: Put, work_off: Work) -> None:
    id = enqueue("charge", "1", "-5", "card=4111-0815")
    work_off()
    said = mita("show", id)
    assert said.code == 0
    for part in (
        id,
        "charge",
        "billing, priority 5",
        "failed",
        "account:1",
        "attempts 1",
        "created",
        "shop.py",
    ):
        assert part in said.out
    assert "4111-0815" not in said.out
    assert "hidden" in said.out
    assert "card='4111-0815'" in mita("show", id, "--args").out


def test_a_record_names_the_limits_that_its_job_was_given(mita: Run, enqueue: Put) -> None:
    said = mita("show", enqueue("limited"))
    assert "options     timeout 20 s, expires 1.5 s, deadline 3600 s, max_reschedules 7" in said.out
    job = mita("show", enqueue("limited"), "--json").data["job"]
    assert (job["timeout"], job["expires"], job["deadline"]) == (20, 1.5, 3600)
    assert job["max_reschedules"] == 7
    assert "options" not in mita("show", enqueue("greet", "Ada")).out


def test_every_attempt_that_failed_is_shown(mita: Run, enqueue: Put, work_off: Work) -> None:
    id = enqueue("flaky")
    work_off()
    said = mita("show", id).out
    first, second = re.findall(
        r"^failure \d: (\w+) at [\d:.]+ after .*, by \S+\n  (.*)$", said, re.MULTILINE
    )
    assert first == ("retried", "shop.SoldOut: the first time")
    assert second == ("failed", "KeyError: 'the second time'")
    assert said.count("the second time") == 3, (
        "its line, its error, and the source line that raised it"
    )
    failures = mita("show", id, "--json").data["job"]["failures"]
    assert [failure["type"] for failure in failures] == ["shop.SoldOut", "KeyError"]
    assert "failures" not in mita("jobs", "--json").data["jobs"][0]


def test_a_long_timeline_shows_the_newest_lines_and_counts_the_others(
    mita: Run, enqueue: Put
) -> None:
    id = enqueue("greet", "Ada", "--after", "1h")
    for n in range(52):
        assert mita("reschedule", id, "--after", f"{n + 1}h", "--reason", f"move {n}").code == 0
    said = mita("show", id).out
    assert "3 earlier: 3 rescheduled" in said
    assert "move 51" in said
    assert "move 2 " not in said


def test_show_prints_json(mita: Run, enqueue: Put, work_off: Work) -> None:
    id = enqueue("greet", "Ada", "times=2")
    work_off()
    job = mita("show", id, "--json").data["job"]
    assert job["id"] == id
    assert job["result"] == "hello hello Ada"
    assert [line["kind"] for line in job["timeline"]] == ["created", "started", "succeeded"]
    assert "arguments" not in job
    assert mita("show", id, "--json", "--args").data["job"]["arguments"] == {
        "name": "Ada",
        "times": 2,
    }


def test_the_first_digits_of_an_id_are_enough(mita: Run, enqueue: Put) -> None:
    first, second = enqueue("greet", "Ada"), enqueue("greet", "Bo")
    for length in range(16, 32):
        assert mita("show", first[:length], "--json").data["job"]["id"] == first
    assert mita("show", second[:-6].upper(), "--json").data["job"]["id"] == second
    assert mita("show", "ffff").code == 1


def test_an_ambiguous_id_is_answered_with_longer_ids(mita: Run, enqueue: Put) -> None:
    ids = [enqueue("greet", "Ada"), enqueue("charge", "1", "2")]
    both = mita("show", ids[0][:4])
    assert both.code == 2
    found = re.search(
        rf"more than one job id begins with {ids[0][:4]}: (\w+) \(charge, ready\), (\w+) "
        r"\(greet, ready\)",
        both.err,
    )
    assert found is not None, both.err
    assert [mita("show", short, "--json").data["job"]["id"] for short in found.groups()] == ids[
        ::-1
    ]
    for n in range(6):
        enqueue("greet", str(n))
    assert mita("show", ids[0][:4]).err.rstrip().endswith("and others; give more digits")


@pytest.mark.parametrize("chosen", [[], ["--queue", "default"], ["--limit", "2"]])
def test_a_terminal_shows_as_many_digits_of_an_id_as_are_needed(
    project: Path, mita: Run, enqueue: Put, chosen: list[str]
) -> None:
    """Also for jobs that were enqueued in one call."""

    async def together() -> None:
        async with Mita("sqlite:///jobs.db") as app:

            @app.task
            async def greet(name: str) -> None: ...

            await app.enqueue_many([greet.call(name) for name in "abc"])

    asyncio.run(together())
    enqueue("charge", "1", "2")
    enqueue("greet", "Ada")
    whole = [
        line.split()[0]
        for line in mita("jobs", *chosen).out.splitlines()[1:]
        if "more:" not in line and line
    ]
    shown = on_a_terminal("jobs", *chosen, NO_COLOR="1")
    short = [
        line.split()[0] for line in shown.splitlines()[1:] if "more:" not in line and line.strip()
    ]
    assert [mita("show", id, "--json").data["job"]["id"] for id in short] == whole
    assert {len(id) for id in whole} == {32}
    assert max(len(id) for id in short) <= 21


@pytest.mark.parametrize("n", [2, 3, 4096, 5000, 70_000])
def test_ids_of_one_call_are_in_order_and_differ_early(n: int) -> None:
    ids = new_ids(n)
    assert ids == sorted(ids)
    assert len({id[:21] for id in ids}) == n
    assert all(uuid.UUID(id).version == 7 for id in ids[::999])


def test_an_id_whose_neighbours_are_not_known_is_not_shortened() -> None:
    ids = ["b" * 32, "a" * 32, "9" * 32]
    assert shortened(ids, ids, complete=True) == {id: id[:12] for id in ids}
    assert shortened([*ids, "c" * 32], ids, complete=False) == {
        **{id: id[:12] for id in ids[:2]},
        ids[2]: ids[2],
        "c" * 32: "c" * 32,
    }
    assert shortened(["a" * 32], ["a" * 32, "a" * 15 + "0" * 17], complete=True) == {
        "a" * 32: "a" * 16
    }


def test_why_says_what_a_job_waits_for_and_what_to_do(mita: Run, enqueue: Put) -> None:
    id = enqueue("greet", "Ada", "--after", "1h")
    mita("pause", "default")
    said = mita("why", id)
    assert said.code == 0
    assert "it is due in" in said.out
    assert "queue 'default' has been paused since" in said.out
    assert "→ resume it: mita resume default\n" in said.out
    codes = [reason["code"] for reason in mita("why", id, "--json").data["reasons"]]
    assert codes == ["due", "queue paused", "no worker"]


def commands_of(out: str) -> list[str]:
    return re.findall(r"→ .*?: (mita .*)", out)


def test_the_command_of_a_remedy_can_be_pasted(project: Path, shell: Run, enqueue: Put) -> None:
    """It names the app and the store of the user's own command."""
    id = enqueue("charge", "1", "2", "--after", "1h")
    for place in (
        ["--app", "shop:app"],
        ["--url", "sqlite:///jobs.db"],
        ["--url", "sqlite:///jobs.db", "--app", "shop:app"],
    ):
        shell("pause", "billing", *place)
        shell("hold", "account:1", "--after", "2h", *place)
        said = shell("why", id, *place, MITA_URL="sqlite:///elsewhere.db")
        helps = commands_of(said.out)
        assert [words.split()[1] for words in helps] == [
            "reschedule",
            "unhold",
            "resume",
            "worker",
        ], said
        for words in helps[:3]:
            done = subprocess.run(
                words.replace("mita", f"{shlex.quote(sys.executable)} -m mita", 1),
                shell=True,
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, "MITA_URL": "sqlite:///elsewhere.db"},
            )
            assert done.returncode == 0, (words, done)
        assert helps[3].startswith(
            "mita worker shop:app" if "--app" in place else "mita worker MODULE:APP"
        )
        shell("reschedule", id, "--after", "1h")
    dead = enqueue("charge", "1", "-5")
    shell("cancel", dead)
    assert commands_of(shell("why", dead).out) == [f"mita retry {dead}"]


@pytest.mark.parametrize(
    "command",
    [["jobs"], ["top", "--once"], ["queues"], ["doctor"], ["why", "{id}"], ["show", "{id}"]],
)
def test_the_app_of_the_environment_is_used(
    mita: Run, enqueue: Put, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    id = enqueue("greet", "Ada", "--after", "1h")
    monkeypatch.delenv("MITA_URL")
    words = [word.format(id=id) for word in command]
    nowhere = mita(*words)
    assert (nowhere.code, "--app MODULE:APP ($MITA_APP) or --url ($MITA_URL)" in nowhere.err) == (
        3,
        True,
    )
    monkeypatch.setenv("MITA_APP", "shop:app")
    assert mita(*words).code == 0
    assert mita(*words, "--url", "sqlite:///elsewhere.db").code == 3, (
        "an option comes before the environment"
    )
    assert mita("enqueue", "greet", "Bo").code == 0
    assert mita("why", id).out.count("mita worker shop:app") == 1


def test_a_worker_takes_the_app_of_the_environment(project: Path, enqueue: Put, mita: Run) -> None:
    id = enqueue("greet", "Ada")
    worker = Running(MITA_APP="shop:app")
    try:
        wait_until(lambda: mita("show", id, "--json").data["job"]["state"] == "succeeded")
    finally:
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 0
        worker.close()
    assert "mita worker MODULE:APP, or set $MITA_APP" in mita("worker").err


def test_special_characters_in_a_command_are_quoted() -> None:
    words = ["printf", "%s|", "plain", "it's", "a b;$(c)", "\x1b\u202e\n'\\", "é"]
    said = subprocess.run(["bash", "-c", shell_command(words)], check=True, capture_output=True)
    assert said.stdout.decode() == "|".join([*words[2:], ""])
    assert shell_command(words).isprintable()


@pytest.mark.parametrize("command", ["show", "why", "cancel", "retry"])
def test_an_unknown_id_is_not_found(mita: Run, command: str) -> None:
    mita("migrate")
    for id in ("0" * 32, "abc123"):
        said = mita(command, id)
        assert said.code == 1
        assert f"no job {id} is in the store" in said.err
        assert mita(command, id, "--json").data["kind"] == "failed"


@pytest.mark.parametrize("command", ["show", "why", "cancel", "retry"])
def test_text_that_cannot_be_an_id_has_exit_code_2(mita: Run, command: str) -> None:
    mita("migrate")
    said = mita(command, "not an id")
    assert (said.code, "is not a job id" in said.err) == (2, True)


def test_the_id_of_a_step_is_that_of_its_flow_and_its_number() -> None:
    flow, other = "a" * 32, "a" * 14 + "0" * 18
    steps = [f"{flow}.000012", f"{flow}.000001"]
    child = f"{steps[1]}.0123456789ab"
    ids = [steps[0], child, steps[1], flow, other]
    assert shortened(ids, ids, complete=True) == {
        flow: "a" * 15,
        other: "a" * 14 + "0",
        steps[0]: "a" * 15 + ".12",
        steps[1]: "a" * 15 + ".1",
        child: "a" * 15 + ".1.0123456789ab",
    }


def test_jobs_are_found_by_tag_and_by_a_chosen_id(mita: Run, enqueue: Put) -> None:
    chosen = enqueue("greet", "Ada", "--tag", "customer:42", "--tag", "new", "--id", "Order-7_mail")
    enqueue("greet", "Bo")
    assert chosen == "Order-7_mail"
    assert [line.split()[0] for line in mita("jobs", "--tag", "new").out.splitlines()[1:]] == [
        chosen
    ]
    shown = mita("show", chosen).out
    assert "tags        customer:42, new" in shown
    again = mita("enqueue", "greet", "Cy", "--id", chosen, "--app", "shop:app")
    assert "not enqueued: this earlier job has the id" in again.out
    assert mita("cancel", "--tag", "new", "--yes").out == "1 job cancelled\n"
    missing = mita("show", "Order-8")
    assert "no job Order-8 is in the store" in missing.err


def test_chosen_ids_are_shown_whole_beside_short_ones() -> None:
    ours = ["a" * 32, "b" * 32]
    found = ["z-1", ours[1], "abc", ours[0], "0-1"]
    assert shortened(found, found, complete=True) == {
        "z-1": "z-1",
        ours[1]: "b" * 12,
        "abc": "abc",
        ours[0]: "a" * 12,
        "0-1": "0-1",
    }
