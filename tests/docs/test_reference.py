"""The reference names everything that is there, and nothing that is not."""

import inspect
import re
from pathlib import Path

import mita
import mita.web
from mita import Mita
from mita.rules.explain.evidence import ReasonCode
from mita.rules.states import as_mermaid

from .pages import PAGES, blocks

DOCS = Path(__file__).parents[2] / "docs"


def test_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    missing = [name for name in mita.__all__ if f"`{name}" not in text]
    assert not missing


def test_the_public_names_of_the_dashboard_are_in_the_reference() -> None:
    assert mita.web.__all__ == ["Role", "dashboard"]
    text = (DOCS / "reference" / "api.md").read_text()
    options = inspect.signature(mita.web.dashboard).parameters
    assert all(f"`Role.{role.name}`" in text for role in mita.web.Role)
    [shown] = re.findall(r"`dashboard\((.*?)\)`", text)
    assert re.findall(r"(\w+)(?==|, \*)", shown) == list(options)


def test_every_public_method_of_an_app_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    names = {name for name in dir(Mita("memory://")) if not name.startswith("_")}
    assert not {name for name in names if not re.search(rf"\b{name}\b", text)}


def test_every_sync_method_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    classes = [getattr(mita, name) for name in mita.__all__]
    twins = {
        name
        for cls in classes
        if isinstance(cls, type)
        for name in dir(cls)
        if name.endswith("_sync")
    }
    assert not {
        name for name in twins if not name.startswith("_") and not re.search(rf"\b{name}\b", text)
    }


def test_the_picture_in_the_docs_is_the_table() -> None:
    assert as_mermaid() in (DOCS / "concepts" / "states.md").read_text()


def test_every_reason_of_why_is_in_its_guide() -> None:
    text = (DOCS / "guide" / "why.md").read_text()
    _, *rows = re.findall(r"^\| `([a-z ]+)` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(code.value for code in ReasonCode)


def test_examples_use_step_and_keep_once_for_values_that_all_jobs_share() -> None:
    calls = [
        call
        for page in PAGES
        for block in blocks(page)
        for call in re.findall(r"\.once(?:_sync)?\(.*", block.text)
    ]
    assert calls
    assert [call for call in calls if 'scope="global"' not in call] == []
