"""`mita amend`: other arguments for a job."""

from collections.abc import Callable

import pytest

from .conftest import Run

Put = Callable[..., str]
Work = Callable[[], None]
APP = ("--app", "shop:app")


def test_a_failed_job_gets_other_arguments(
    mita: Run, enqueue: Put, work_off: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ada")
    id = enqueue("charge", "1", "-5")
    work_off()
    said = mita("amend", id[:30], "cents=500", "card=007", "--reason", "a typo", *APP)
    assert (said.code, said.out) == (0, f"{id}  changed: cents, card\n")
    job = mita("show", id, "--args", "--json").data["job"]
    assert (job["state"], job["arguments"]) == (
        "failed",
        {"account": 1, "cents": 500, "card": "007"},
    )
    line = job["timeline"][-1]
    assert line["kind"] == "amended"
    assert line["note"].startswith("cents, card; a typo; by ada on ")
    assert mita("retry", id).code == 0
    work_off()
    assert mita("show", id, "--json").data["job"]["state"] == "succeeded"
    said = mita("amend", id, "cents=1", *APP)
    assert (said.code, "not changed: it is succeeded; only jobs that do not run" in said.out) == (
        1,
        True,
    )


def test_wrong_changes_are_refused(mita: Run, enqueue: Put) -> None:
    id = enqueue("charge", "1", "5")
    for words, text in (
        (("cents=many", *APP), "parameter 'cents': Expected `int`, got `str`"),
        (("cent=1", *APP), "did you mean 'cents'?"),
        (("500", *APP), "'500' is not NAME=VALUE"),
        (("cents=1", "cents=2", *APP), "'cents' is given twice"),
        (("cents=1",), "which app has the task of this job?"),
    ):
        said = mita("amend", id, *words)
        assert (said.code, text in said.err) == (2, True), said
    assert mita("amend", "ffffffff", "cents=1", *APP).code == 1
    said = mita("amend", id, "cents=6", "--json", *APP)
    assert said.data == {"id": id, "changed": ["cents"], "answer": "done"}
