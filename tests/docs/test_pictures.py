"""The picture of the demo is drawn from what the demo says."""

from tools.demo_picture import draw, rows

SAID = """Mita: one SQLite file, one worker, no server.

Later. After a wait, or at a moment; never before its time.
  0.16 s  enqueued     greet Bo    to run after 1 s
  1.16 s  runs         greet Bo
  1.16 s  succeeded    greet Bo    began 4 ms after its time
  1.20 s  repeat       tick        every 0.8 s, 3 times

Again. A failure is tried again, after longer and longer waits.
  2.20 s  enqueued     fetch       its server does not answer at first
"""


def test_each_job_has_a_row_and_each_part_its_headline() -> None:
    assert [(row.heading, row.job, [step.what for step in row.steps]) for row in rows(SAID)] == [
        ("Later", "greet Bo", ["enqueued", "runs", "succeeded"]),
        ("Again", "fetch", ["enqueued"]),
    ]


def test_what_is_drawn_is_also_said_for_those_who_cannot_see_it() -> None:
    assert "greet Bo: enqueued at 0.16 s, runs at 1.16 s, succeeded at 1.16 s" in str(
        draw(list(rows(SAID)))
    )
