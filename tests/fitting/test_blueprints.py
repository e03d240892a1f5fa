"""`Tasks()` and `app.include`: tasks of modules that know no app, and the names of tasks."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mita import Depends, Job, Mita, Retry, Tasks, UsageError
from mita.testing import lab
from tests.engine.conftest import working
from tests.waiting import until

HERE = __name__


def module(name: str, app: Mita | None = None, **options: Any) -> Any:
    """A module of this name with a task `process`, and its `Tasks()`."""
    tasks = Tasks()
    told = {"tasks": tasks, "__name__": name, "options": options}
    source = "@tasks.task(**options)\ndef process(x: int = 1) -> str: return __name__"
    exec(compile(source, name, "exec"), told)
    if app is not None:
        app.include(tasks)
    return told["process"], tasks


async def test_two_modules_may_have_a_function_of_one_name(app: Mita) -> None:
    mail, _ = module("shop.mail", app)
    bills, _ = module("shop.bills", app)
    assert sorted(app.tasks) == ["shop.bills.process", "shop.mail.process"]
    async with working(app):
        assert await (await mail.enqueue()).result(10) == "shop.mail"
        assert await (await bills.enqueue()).result(10) == "shop.bills"


async def test_a_task_has_the_options_and_dependencies_of_any_task(app: Mita) -> None:
    tasks = Tasks()

    @tasks.task(queue="mail", retry=Retry(max_retries=7))
    async def send(job: Job, to: str, x: str = Depends(lambda: "x")) -> str:
        return f"{job.queue} {to} {x}"

    app.include(tasks)
    assert (send.name, send.queue, send.retry.max_retries) == (f"{HERE}.send", "mail", 7)
    async with working(app):
        assert await (await send.enqueue("Ada")).result(10) == "mail Ada x"


def test_it_takes_over_the_defaults_of_the_app() -> None:
    app = Mita("memory://", retry=Retry(max_retries=3), payload_limit=100)
    process, _ = module("shop.mail", app)
    assert process.retry.max_retries == 3
    tasks = Tasks()

    @tasks.task
    def big(text: str) -> None: ...

    app.include(tasks)
    with pytest.raises(UsageError, match="100"):
        big.call("x" * 200)


async def test_a_task_that_is_declared_after_the_include_belongs_to_the_app(app: Mita) -> None:
    tasks = Tasks("mail")
    app.include(tasks)

    @tasks.task
    def send() -> int:
        return 1

    async with working(app):
        assert await (await send.enqueue()).result(10) == 1


def test_without_an_app_it_cannot_be_enqueued() -> None:
    process, _ = module("shop.mail")
    with pytest.raises(UsageError, match=r"'shop\.mail\.process' belongs to no app yet"):
        process.enqueue_sync()
    with pytest.raises(UsageError, match="belongs to no app yet"):
        process.using(object())


def test_one_app_includes_it(app: Mita) -> None:
    _, tasks = module("shop.mail", app)
    app.include(tasks)  # again: nothing changes
    with pytest.raises(UsageError, match="belong to another app"):
        Mita("memory://").include(tasks)
    with pytest.raises(UsageError, match="give a Tasks"):
        app.include("shop.mail")  # type: ignore[arg-type]


async def test_jobs_under_the_name_of_the_function_still_run(app: Mita) -> None:
    """They were stored when the task was declared with `@app.task`."""

    @app.task
    def process(x: int = 1) -> str:
        return "before"

    async with lab(app) as it:
        job = await process.enqueue()
        later = Mita("memory://")
        module("shop.mail", later)
        it._inline._tasks = later._known
        assert await it.drain() == 1
        assert await job.result() == "shop.mail"


def test_the_name_of_a_function_is_no_alias_if_two_tasks_have_it(app: Mita) -> None:
    mail, _ = module("shop.mail", app)
    assert app.find_task("process") is mail
    bills, _ = module("shop.bills", app)
    with pytest.raises(UsageError, match="no task 'process'"):
        app.find_task("process")
    assert app.find_task("shop.bills.process") is bills


def test_an_alias_says_which_of_two_tasks_runs_the_jobs_of_a_name(app: Mita) -> None:
    mail, _ = module("shop.mail", app, aliases=["process"])
    module("shop.bills", app)
    assert app.find_task("process") is mail


def test_a_task_of_the_app_comes_before_an_alias(app: Mita) -> None:
    module("shop.mail", app)

    @app.task
    def process() -> None: ...

    assert app.find_task("process") is process
    module("shop.bills", app)
    assert app.find_task("process") is process


async def test_a_task_that_moved_keeps_its_stored_jobs_by_an_alias(app: Mita) -> None:
    process, _ = module("shop.letters", app, aliases=["shop.mail.process"])
    assert app.find_task("shop.mail.process") is process
    with pytest.raises(UsageError, match=r"is an alias of task 'shop\.letters\.process'"):
        module("shop.mail", app)
    with pytest.raises(UsageError, match=r"its alias .* belongs to task 'shop.letters.process'"):
        module("shop.bills", app, aliases=["shop.mail.process"])
    with pytest.raises(UsageError, match="give a list of names"):
        module("shop.bills", app, aliases="old")


def test_a_prefix_replaces_the_name_of_the_module_and_a_name_both() -> None:
    tasks = Tasks("mail")

    @tasks.task
    def send() -> None: ...

    @tasks.task(name="own")
    def other() -> None: ...

    assert (send.name, other.name) == ("mail.send", "own")
    with pytest.raises(UsageError, match="prefix"):
        Tasks("no spaces")


async def test_a_worker_tells_others_all_names_that_it_knows(app: Mita) -> None:
    module("shop.mail", app)
    async with working(app):
        [worker] = await until(app.workers)
        assert worker.tasks == ("process", "shop.mail.process")


SCRIPT = """
from mita import Mita, Tasks
app, tasks = Mita({url!r}), Tasks()

@tasks.task
def process() -> str:
    return __name__

app.include(tasks)
if __name__ == "__main__":
    print(process.name, process.enqueue_sync().id)
"""


def test_what_a_script_enqueues_is_run_by_a_worker_that_imports_it(tmp_path: Path) -> None:
    """In a script the module is called `__main__`; the worker calls it `package.jobs`."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "jobs.py").write_text(SCRIPT.format(url=url))
    run = [sys.executable, "package/jobs.py"]
    said = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    name, id = said.split()
    assert name == "process"
    worker = [sys.executable, "-m", "mita", "worker", "package.jobs:app", "--until-empty"]
    subprocess.run(worker, cwd=tmp_path, check=True, capture_output=True)
    app = Mita(url)
    assert app.result_sync(id) == "package.jobs"
    app.close_sync()


@pytest.mark.parametrize("first", ["middleware", "include"])
async def test_the_middleware_of_the_app_is_around_its_runs(
    app: Mita, log: list[str], first: str
) -> None:
    process, tasks = module("shop.mail")

    def around(job: Job) -> Iterator[None]:
        log.append(job.task)
        yield

    if first == "middleware":
        app.middleware(around)
    app.include(tasks)
    if first == "include":
        app.middleware(around)
    async with lab(app) as it:
        await process.enqueue()
        await it.drain()
    assert log == ["shop.mail.process"]
