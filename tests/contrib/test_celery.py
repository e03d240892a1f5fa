"""Code for Celery, translated into code for Mita: it is the code that a person would write, and it
runs."""

import re
from pathlib import Path

import pytest

from mita import Mita, UsageError
from mita.contrib.celery import translate
from mita.contrib.celery.__main__ import main
from mita.testing import lab

SHOP = '''"""Jobs of the shop."""
from celery import Celery, chain, chord, group

app = Celery("shop", broker="redis://localhost")
seen = []


@app.task(bind=True, max_retries=2, default_retry_delay=1, acks_late=True)
def fetch(self, url):
    if not seen:
        seen.append(self.request.id)
        raise self.retry(countdown=60)
    return f"page {url}"


@app.task(time_limit=30, rate_limit="600/m")
def add(a, b=1):
    return a + b


@app.task
def total(numbers):
    seen.append(sum(numbers))


def start():
    fetch.delay("u")
    add.apply_async((1,), {"b": 2}, countdown=10, queue="math")
    chord([add.s(1, 2), add.s(3, 4)])(total.s())
    group(add.s(n) for n in range(3)).delay()
    chain(add.s(1), add.si(5)).apply_async()
'''


def test_a_translated_module_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    code = translate(SHOP).code
    assert "celery" not in code.lower()
    names: dict[str, object] = {"__name__": "shop"}
    monkeypatch.setenv("MITA_URL", "memory://")
    exec(compile(code, "shop.py", "exec"), names)
    app, start, seen = names["app"], names["start"], names["seen"]
    assert isinstance(app, Mita)
    assert callable(start)
    assert isinstance(seen, list)
    with lab(app) as it:
        start()
        it.advance_sync(120)
        states = {job.state for job in app.jobs_sync(limit=50).jobs}
    assert states == {"succeeded"}
    assert seen[1:] == [10]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f.delay(1, k=2)", "f.enqueue_sync(1, k=2)"),
        ("f.apply_async()", "f.enqueue_sync()"),
        ("f.apply_async(args, kwargs)", "f.enqueue_sync(*args, **kwargs)"),
        ("f.apply_async([1], eta=t, task_id='x')", "f.options(id='x').at(t).enqueue_sync(1)"),
        ("f.apply_async(None, {'a-b': 1})", "f.enqueue_sync(**{'a-b': 1})"),
        ("f.delay(g.delay(1).id)", "f.enqueue_sync(g.enqueue_sync(1).id)"),
        ("chain(f.s(1), g.s())()", "app.chain(f.call(1), g.call).enqueue_sync()"),
        ("group([f.s(1), f.s(2)])()", "app.group([f.call(1), f.call(2)]).enqueue_sync()"),
        ("r = f.delay()\nr.get(timeout=1)", "r = f.enqueue_sync()\nr.result_sync(timeout=1)"),
        ("other.get(timeout=1)", "other.get(timeout=1)"),
        ("x = {}\nx.get('a')", "x = {}\nx.get('a')"),
    ],
)
def test_a_call_is_translated(before: str, after: str) -> None:
    assert translate(f"{before}\n").code == f"{after}\n"


def test_async_code_awaits() -> None:
    found = translate("async def f():\n    r = g.delay(1)\n    return r.get()\n")
    assert found.code == "async def f():\n    r = await g.enqueue(1)\n    return await r.result()\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            "@app.task(max_retries=5, retry_backoff=2, retry_jitter=False)",
            '@app.task(retry=Retry(max_retries=5, base=2, jitter="none"))',
        ),
        ("@app.task(soft_time_limit=5, time_limit=9)", "@app.task(timeout=9)"),
        ("@app.task(soft_time_limit=5)", "@app.task(timeout=5)"),
        ("@app.task(dont_autoretry_for=(KeyError,))", "@app.task(final=(KeyError,))"),
        ("@shared_task", "tasks = Tasks()"),
        ("@app.task(rate_limit='5/h')", "rate=Rate(5, per=3600)"),
    ],
)
def test_the_options_of_a_task_are_translated(options: str, says: str) -> None:
    assert says in translate(f"{options}\ndef f():\n    pass\n").code


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("chain(f.s(1), g.s(2))()", "chain: write it as"),
        ("(f.s(1) | g.s())()", r"a \| b: write app.chain"),
        ("app.conf.beat_schedule = {}", "use @app.repeats"),
        ("f.apply_async(link=g.s())", "link=.*left out"),
        ("@app.task(base=Mine)\ndef f(): pass", "base=Mine has no counterpart"),
        ("@app.task(rate_limit=LIMIT)\ndef f(): pass", r"rate_limit=LIMIT was left out"),
        ("@app.task(autoretry_for=(OSError,))\ndef f(): pass", "retries after every error"),
        ("@app.task(bind=True)\ndef f(self):\n    self.request.hostname", "request.hostname"),
    ],
)
def test_what_a_person_has_to_look_at_is_said(code: str, says: str) -> None:
    assert any(re.search(says, note.text) for note in translate(f"{code}\n").notes)


def test_the_command_shows_changes_and_writes_them_only_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, bad = tmp_path / "shop.py", tmp_path / "bad.py"
    file.write_text(SHOP)
    bad.write_text("def f(:\n")
    assert main([str(file)]) == 0
    assert "+app = Mita()" in capsys.readouterr().out
    assert file.read_text() == SHOP
    assert main([str(file), "--write"]) == 0
    assert "app = Mita()" in file.read_text()
    assert main([str(bad), str(tmp_path / "none.py")]) == 2
    assert "not a Python file" in capsys.readouterr().err
    with pytest.raises(UsageError, match="not a Python file"):
        translate("def f(:")
