"""Pages whose blocks name a file or a terminal are followed as a newcomer follows them: in an empty
folder, with real files, real workers and the commands that they show. `reader.py` says how."""

from collections.abc import Sequence
from pathlib import Path

import django
import pytest

from . import pages
from .pages import PAGES, Block, blocks, is_followed
from .reader import Reader
from .terminals import PATIENCE_S
from .test_site import DOCS, named, settings

# the tutorial is one walk through several pages, in the order of the navigation
TUTORIAL = [DOCS / page for part in settings()["nav"] for page in named(part.get("Tutorial", []))]
FOLLOWED = [page for page in PAGES if is_followed(page) and page not in TUTORIAL]


def follow(walk: Sequence[Path], folder: Path) -> None:
    reader = Reader(folder)
    try:
        for page in walk:
            for block in blocks(page):
                reader.do(block)
    finally:
        reader.leave()


@pytest.mark.timeout(PATIENCE_S * 5)  # real processes, one after the other
def test_a_newcomer_can_follow_the_tutorial(tmp_path: Path) -> None:
    assert len(TUTORIAL) > 3
    follow(TUTORIAL, tmp_path)


@pytest.mark.timeout(PATIENCE_S * 5)
@pytest.mark.parametrize("page", FOLLOWED, ids=pages.name)
def test_a_newcomer_can_follow_the_page(page: Path, tmp_path: Path) -> None:
    if page.name == "django-tasks.md" and django.VERSION < (6, 0):
        pytest.skip("the page needs Django 6, and that Python 3.12")
    follow([page], tmp_path)


APP = 'from mita import Mita\n\napp = Mita("sqlite:///jobs.db")\n'
TASK = "@app.task\ndef {name}() -> None: ...\n"


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (Block("python", "print(job)\n", title="Terminal 2: python -m asyncio"), "NameError"),
        (
            Block("python", "print(1)  # 2\n", title="Terminal 2: python -m asyncio"),
            "'2' is not what was printed",
        ),
        (Block("console", "$ mita quieues\n", title="Terminal 2"), "quieues"),
        (Block("console", "$ echo 1\n2\n", title="Terminal 2"), "but the page shows:\n2"),
        (Block("console", "$ false\n", title="Terminal 2"), "ended with 1"),
        (Block("console", "hello\n", title="Terminal 1"), "nothing runs in Terminal 1"),
        (Block("python", "print(1)\n"), "give the block a title"),
    ],
    ids=lambda given: given.text.strip() if isinstance(given, Block) else "",
)
def test_a_mistake_on_a_page_is_noticed(tmp_path: Path, block: Block, complaint: str) -> None:
    reader = Reader(tmp_path)
    try:
        with pytest.raises(AssertionError) as caught:
            reader.do(block)
        assert complaint in str(caught.value)
    finally:
        reader.leave()


def test_a_worker_does_not_know_code_that_was_added_after_its_start(tmp_path: Path) -> None:
    """Unless the page says that it is restarted."""
    told = "Add this, and restart the worker:"
    first, second, third = (TASK.format(name=name) for name in ("first", "second", "third"))
    reader = Reader(tmp_path)
    try:
        reader.do(Block("python", APP + first, title="jobs.py"))
        reader.do(Block("console", "$ mita worker jobs:app\n… 1 task,…\n", title="Terminal 1"))
        before = reader.programs["Terminal 1"]
        reader.do(Block("python", second, title="add to jobs.py"))
        assert reader.programs["Terminal 1"] is before
        reader.do(Block("python", third, title="add to jobs.py", before=told))
        reader.do(Block("console", "… 3 tasks,…\n…\n… repeat leader\n", title="Terminal 1"))
        reader.do(Block("console", "^C\n…\n… has ended\n", title="Terminal 1"))
        assert reader.programs == {}
    finally:
        reader.leave()
