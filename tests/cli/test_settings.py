"""`[tool.mita]` of pyproject.toml and `$MITA_…`: what they set, and who wins."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from mita import Mita, UsageError
from mita.cli import grammar
from mita.cli.defaults import fill_worker_options
from mita.cli.parser import read
from mita.project import SETTINGS, WORKER_SETTINGS, of_project

from .conftest import Run


@pytest.fixture(autouse=True)
def clean(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(f"MITA_{name.upper()}", raising=False)


def write(folder: Path, *lines: str) -> None:
    (folder / "pyproject.toml").write_text("\n".join(["[tool.mita]", *lines, ""]))


def options_of(*words: str) -> Namespace:
    options = read(grammar(), ["worker", *words])
    fill_worker_options(options)
    return options


def test_flag_beats_environment_beats_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert options_of().concurrency == 100
    write(project, "concurrency = 3", 'grace = "1m"', 'log-level = "debug"', "schedule = false")
    found = options_of()
    assert (found.concurrency, found.grace, found.log_level) == (3, 60.0, "debug")
    assert found.schedule is False
    monkeypatch.setenv("MITA_CONCURRENCY", "4")
    monkeypatch.setenv("MITA_SCHEDULE", "yes")
    found = options_of()
    assert (found.concurrency, found.schedule) == (4, True)
    assert options_of("--concurrency", "5").concurrency == 5
    assert options_of("--concurr=6").concurrency == 6, "an option may be shortened"
    assert options_of("--no-schedule").schedule is False


def test_queues_on_the_command_line_replace_those_that_the_project_excludes(project: Path) -> None:
    write(project, 'exclude = ["slow"]')
    assert options_of().exclude == ["slow"]
    found = options_of("--queues", "mail")
    assert (found.queues, found.exclude) == (["mail"], [])


def test_every_worker_setting_is_an_option_of_the_worker() -> None:
    options = read(grammar(), ["worker"])
    assert [name for name in WORKER_SETTINGS if not hasattr(options, name)] == []


def test_app_and_url_are_found_from_a_folder_inside_the_project(
    mita: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, 'app = "shop2:app"', 'url = "sqlite:///data.db"', 'namespace = "shop"')
    (project / "shop2.py").write_text(
        "from mita import Mita\napp = Mita()\n@app.task\nasync def greet(name: str) -> None: ...\n"
    )
    inside = project / "deep" / "er"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert mita("enqueue", "greet", "Ada").code == 0
    assert (project / "data.db").exists()
    assert "greet" in mita("jobs").out
    monkeypatch.chdir(project)
    said = mita("check")
    assert said.code == 0
    assert f"{project / 'pyproject.toml'}" in said.out
    assert {one["name"] for one in mita("check", "--json").data["settings"]} == {
        "app",
        "url",
        "namespace",
    }
    assert Mita().url.path == project / "data.db"
    assert Mita().url.namespace == "shop"
    assert Mita("sqlite:///own.db").url.namespace == "mita", "a URL in the code is complete"


def test_check_shows_no_password(mita: Run, project: Path) -> None:
    write(project, 'url = "redis://me:s3cr3t@127.0.0.1:1/0"')
    said = mita("check", "--timeout", "2")
    assert said.code == 3
    assert "s3cr3t" not in said.out + said.err
    assert "redis://me:***@127.0.0.1:1/0" in said.out


WRONG = {
    "concurency = 3": "no key 'concurency', did you mean 'concurrency'?",
    "zzz = 1": "It takes app, url, namespace",
    'concurrency = "many"': "give a whole number",
    "concurrency = true": "give a whole number",
    "queues = 3": "give a list of names",
    'grace = "soon"': "'soon' is not a length of time",
    "app = 3": "give a text",
    'schedule = "maybe"': "give true or false",
    'log_level = "loud"': "Choose from debug, info",
    "app = ": "cannot be read",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_setting_is_named_with_its_file(mita: Run, project: Path, line: str) -> None:
    write(project, line)
    said = mita("worker", "shop:app", "--until-empty")
    assert said.code == 2
    assert "pyproject.toml" in said.err
    assert WRONG[line] in said.err


def test_a_wrong_variable_is_named(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MITA_LEASE", "long")
    said = mita("worker", "shop:app", "--until-empty")
    assert (said.code, "$MITA_LEASE = 'long'" in said.err) == (2, True)


@pytest.mark.parametrize(
    "text", ["", "[tool.other]\nx = 1\n", "not toml at all", "[tool]\nmita = 3"]
)
def test_files_without_the_table_are_left_alone(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert of_project() == {}


def test_an_app_from_settings(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, 'url = "sqlite:///a.db"', 'keep = "2h"', "keep_most = 5", "concurrency = 9")
    monkeypatch.setenv("MITA_KEEP_MOST", "6")
    app = Mita.from_settings()
    assert app.url.path == project / "a.db"
    assert app._settings.keep == 7_200_000
    assert app._settings.keep_most == 6
    given: dict[str, Any] = {"url": "memory://", "keep": 1}
    assert Mita.from_settings(**given)._settings.keep == 1000
    monkeypatch.setenv("MITA_PAYLOAD_LIMIT", "0")
    with pytest.raises(UsageError, match="payload_limit=0"):
        Mita.from_settings()
