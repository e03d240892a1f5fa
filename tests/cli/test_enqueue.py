"""`mita enqueue`: how words become values, its options, and what it refuses."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from mita import Mita
from mita.cli.argtypes import arguments

from .conftest import Run


def arguments_of(mita: Run, id: str) -> object:
    return mita("show", id, "--args", "--json").data["job"]["arguments"]


def test_enqueue_prints_the_id_of_the_new_job(mita: Run) -> None:
    said = mita("enqueue", "greet", "Ada", "--app", "shop:app")
    id, word = said.out.split()
    assert (said.code, word) == (0, "enqueued")
    assert mita("show", id, "--json").data["job"]["task"] == "greet"


def test_words_are_text_for_text_parameters_and_json_for_others(
    mita: Run, enqueue: Callable[..., str]
) -> None:
    assert arguments_of(mita, enqueue("greet", "Ada", "times=3")) == {"name": "Ada", "times": 3}
    assert arguments_of(mita, enqueue("greet", "42")) == {"name": "42"}
    assert arguments_of(mita, enqueue("greet", '"42"')) == {"name": "42"}
    assert arguments_of(mita, enqueue("greet", "name=null")) == {"name": "null"}
    assert arguments_of(mita, enqueue("post", "null", "a=1", "tags=[1]")) == {
        "text": None,
        "a": "1",
        "tags": [1],
    }
    assert arguments_of(mita, enqueue("charge", "-7", "cents=-5")) == {"account": -7, "cents": -5}


def test_all_arguments_can_be_given_as_one_json_value(
    mita: Run, enqueue: Callable[..., str]
) -> None:
    assert arguments_of(mita, enqueue("greet", "--args", '{"name": "Ada", "times": 2}')) == {
        "name": "Ada",
        "times": 2,
    }
    assert arguments_of(mita, enqueue("greet", "--args", '["Ada", 2]')) == {
        "name": "Ada",
        "times": 2,
    }


def test_arguments_can_be_read_from_stdin(
    mita: Run, enqueue: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO('["Ada"]'))
    assert arguments_of(mita, enqueue("greet", "--args", "-")) == {"name": "Ada"}


def test_options_may_be_between_arguments(mita: Run) -> None:
    said = mita("enqueue", "greet", "--app", "shop:app", "Ada", "--json", "times=2")
    assert arguments_of(mita, said.data["id"]) == {"name": "Ada", "times": 2}


def test_the_job_has_the_queue_priority_key_and_time_of_the_options(
    mita: Run, enqueue: Callable[..., str]
) -> None:
    id = enqueue(
        "greet",
        "Ada",
        "--queue",
        "mail",
        "--priority",
        "9",
        "--resource",
        "box",
        "--at",
        "2040-01-01T09:00:00+02:00",
    )
    job = mita("show", id, "--json").data["job"]
    assert (job["queue"], job["priority"], job["resource"]) == ("mail", 9, "box")
    assert (job["state"], job["due"]) == ("scheduled", "2040-01-01T07:00:00Z")


def test_after_takes_units(mita: Run, enqueue: Callable[..., str]) -> None:
    enqueue("greet", "Ada", "--after", "1h30m")
    assert "in 1 h" in mita("jobs").out


def test_a_unique_key_returns_the_earlier_job(mita: Run, enqueue: Callable[..., str]) -> None:
    first = enqueue("greet", "Ada", "--unique", "ada")
    again = mita("enqueue", "greet", "Ada", "--unique", "ada", "--app", "shop:app", "--json")
    assert again.data == {"id": first, "created": False}
    assert (
        "earlier job" in mita("enqueue", "greet", "Ada", "--unique", "ada", "--app", "shop:app").out
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nosuch"], "no task 'nosuch'"),
        (["greet"], "missing a required argument: 'name'"),
        (["greet", "Ada", "many"], "parameter 'times'"),
        (["greet", "Ada", "2", "3"], "too many positional arguments"),
        (["greet", "Ada", "colour=red"], "unexpected keyword argument 'colour'"),
        (["greet", "Ada", "--priority", "-101"], "priority=-101"),
        (["greet", "Ada", "--priority", "high"], "invalid int value: 'high'"),
        (["greet", "Ada", "--queue", "odd name"], "queue 'odd name' is not a usable name"),
        (["greet", "Ada", "--at", "2030-01-01T09:00:00"], "has no time zone"),
        (["greet", "Ada", "--at", "tomorrow"], "is not a time"),
        (["greet", "Ada", "--after", "-5"], "is negative"),
        (["greet", "Ada", "--after", "soon"], "is not a length of time"),
        (["greet", "Ada", "--after", "5", "--at", "2030-01-01T09:00:00Z"], "not allowed with"),
        (["greet", "--args", "{"], "--args is not JSON"),
        (["greet", "--args", "3"], "--args takes a JSON list or object"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_stored(
    mita: Run, words: list[str], complaint: str
) -> None:
    mita("migrate")
    said = mita("enqueue", *words, "--app", "shop:app")
    assert said.code == 2
    assert complaint in said.err
    assert mita("jobs", "--json").data["jobs"] == []


def test_enqueue_needs_an_app(mita: Run) -> None:
    said = mita("enqueue", "greet", "Ada")
    assert (said.code, "--app MODULE:APP" in said.err) == (2, True)


def test_a_word_for_a_path_parameter_is_a_path_even_if_it_is_a_number() -> None:
    app = Mita("memory://")

    @app.task
    def read(file: Path, lines: int, copy: Path | None = None) -> None: ...

    by_position, by_name = arguments(read, ["2026", "3", "copy=null"], None)
    assert (by_position, by_name) == (["2026", 3], {"copy": None})
    payload = read.arguments.pack(tuple(by_position), by_name)
    assert read.arguments.unpack(payload)[0] == (Path("2026"), 3, None)
