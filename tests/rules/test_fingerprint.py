"""Failures that are alike have one fingerprint, and others do not."""

import sysconfig
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mita
from mita.engine.outcomes import describe, withheld
from mita.rules.fingerprint import (
    FINGERPRINT_DIGITS,
    MOST_MESSAGE_CHARACTERS,
    MOST_READ_CHARACTERS,
    described,
    fingerprint,
    normalised,
)

ALIKE = [
    ("user 42 not found", "user 4711 not found"),
    ("balance is -3.50, needs 1,200.75", "balance is 17, needs 3"),
    ("took 1.5e-3 s", "took 12 s"),
    ("object at 0x7f3a2c01", "object at 0x55d09b117f80"),
    ("commit deadbeef01 is gone", "commit 0badc0de99 is gone"),
    (
        "job 0192f6a1b2c37d4e8f901a2b3c4d5e6f failed",
        "job 0192f6a1b2c37000800000000000abcd failed",
    ),
    (
        "no row 3f2b8c1e-9d4a-4f6b-8c7d-1e2f3a4b5c6d",
        "no row 00000000-0000-0000-0000-000000000000",
    ),
    ("order 01ARZ3NDEKTSV4RRFFQ69G5FAV", "order 01BX5ZZKBKACTAV9WEVGEMMVRZ"),
    ("customer cus_NffrFeUfNV2Hib3x", "customer cus_9s6XKzkNRiz8i3aa"),
    ("'ada' is unknown", "'bo' is unknown"),
    ('"ada" is unknown', '"grace hopper" is unknown'),
    ("key `a` is missing", "key `b.c` is missing"),
    ("'it\\'s' is bad", "'that' is bad"),
    ("b'\\x00\\x01' is no text", "b'abc' is no text"),
    ("“Ada” is unknown", "“Bo” is unknown"),
    ("cannot open /var/data/in/a.csv", "cannot open /srv/b.csv"),
    ("cannot open C:\\data\\a.csv now", "cannot open D:\\b.csv now"),
    ("cannot open data/2024/a.csv", "cannot open data/2025/other/b.csv"),
    ("cannot open ../a", "cannot open ~/b/c"),
    ("GET https://a.example/x?y=1 failed", "GET http://b.example:8080/z failed"),
    ("postgresql://ada@db/one is away", "postgresql://bo:pw@db2/two is away"),
    ("no mailbox ada@example.com", "no mailbox bo.b+x@mail.example.org"),
    ("cannot reach 10.0.0.1:5432", "cannot reach 192.168.17.254:6432"),
    ("cannot reach [2001:db8::1]:443", "cannot reach [fe80::a:b]:443"),
    ("cannot reach ::1 now", "cannot reach 2001:db8:0:0:0:0:0:1 now"),
    ("due 2026-11-16T17:31:00Z is over", "due 2025-01-02 is over"),
    ("due 2026-11-16 17:31:00.123+01:00 is over", "due 2025-01-02 03:04 is over"),
    ("since Mon, 16 Nov 2026 17:31:00 GMT", "since Tue, 3 Jan 2023 01:02:03 GMT"),
    ("at 17:31:05.250 it broke", "at 3:04 it broke"),
    ("too   many\tblanks ", "too many blanks"),
    ("worker-12 of host7 died", "worker-3 of host12 died"),
    ("first line 1\nsecond line", "first line 2\nanother second line"),
    ("\n  indented 1\nmore", "indented 2"),
    ("row (3, 4) of table_7", "row (17, 2) of table_12"),
]

DIFFERENT = [
    ("user 42 not found", "order 42 not found"),
    ("cannot connect", "cannot read"),
    ("'a' is unknown", "'a' is too long"),
    ("/a/b is missing", "/a/b is a folder"),
    ("https://a.example gave 500", "https://a.example timed out"),
    ("ada@example.com is unknown", "ada@example.com is blocked"),
    ("can't open it", "can't close it"),
    ("timeout while reading", "timeout while writing"),
    ("due 2026-11-16 is over", "start 2026-11-16 is over"),
    ("no such column: name", "no such column: address"),
    ("relation users does not exist", "relation orders does not exist"),
    ("permission denied", "permission granted"),
    ("read/write failed", "read/seek failed"),
    ("division by zero", "modulo by zero"),
    ("expected int", "expected str"),
    ("quota of tenant exceeded", "quota of user exceeded"),
    ("the deadbeefs are here", "the decade is over"),
    ("übergröße", "untergröße"),
    ("接続できません", "読み込めません"),
    ("invalid token", "expired token"),
    ("card declined", "card expired"),
    ("", "something"),
    ("out of memory", "out of disk"),
    ("row 1", "row 1 of 2"),
    ("b'x' is no text", "b'x' is no number"),
    ("missing: name", "missing: name, address"),
    ("Ada is unknown", "ADA IS UNKNOWN"),
    ("no route to host", "connection refused"),
    ("lock timeout; retry", "lock timeout; giving up"),
    ("0x1f is odd", "0x1f is even"),
]


def error(message: str, *frames: str, kind: str = "ValueError") -> str:
    """An error as `engine.outcomes` writes it; a frame is `path:function`."""
    lines = [f"{kind}: {message}".rstrip(": ")]
    for number, frame in enumerate(frames, 3):
        path, _, function = frame.rpartition(":")
        lines.append(f'  File "{path}", line {number}, in {function}\n    raise it')
    return "\n".join(lines)


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_differs_from_job_to_job_does_not_count(one: str, other: str) -> None:
    assert normalised(one.strip().split("\n")[0]) == normalised(other.strip().split("\n")[0])
    assert fingerprint("send", error(one)) == fingerprint("send", error(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_messages_are_another_group(one: str, other: str) -> None:
    assert fingerprint("send", error(one)) != fingerprint("send", error(other))


SITE = "/venv/lib/python3.11/site-packages/requests/api.py:get"
STDLIB = f"{sysconfig.get_path('stdlib')}/json/decoder.py:decode"
OURS = f"{mita.__path__[0]}/tasks/job.py:once"


def test_a_fingerprint_is_sixteen_digits_of_everything_that_counts() -> None:
    made = fingerprint("send", error("no", "/app/mail.py:send"))
    assert len(made) == FINGERPRINT_DIGITS == 16
    assert int(made, 16) >= 0
    others = [
        fingerprint("pack", error("no", "/app/mail.py:send")),
        fingerprint("send", error("no", "/app/mail.py:send", kind="KeyError")),
        fingerprint("send", error("yes", "/app/mail.py:send")),
        fingerprint("send", error("no", "/app/post.py:send")),
        fingerprint("send", error("no", "/app/mail.py:Sender.send")),
        fingerprint("send", error("no")),
    ]
    assert len({made, *others}) == 7


def test_neither_the_line_nor_the_folder_of_a_frame_counts() -> None:
    text = error("no", "/app/mail.py:send")
    moved = text.replace("line 3", "line 300").replace("/app/", "C:\\releases\\17\\")
    assert fingerprint("send", text) == fingerprint("send", moved)


@pytest.mark.parametrize("foreign", [SITE, STDLIB, OURS, "<frozen importlib._bootstrap>:_load"])
def test_the_innermost_frame_of_the_users_code_counts(foreign: str) -> None:
    text = error("no", foreign, "/app/main.py:run", "/app/mail.py:send", foreign, foreign)
    assert described(text).frame == "send in mail.py"
    assert fingerprint("send", text) == fingerprint("send", error("no", "/app/mail.py:send"))
    assert described(error("no", foreign)).frame == ""


def test_the_cause_of_an_error_does_not_count() -> None:
    text = error("no", "/app/mail.py:send")
    caused = f"{text}\ncaused by {error('7', '/app/db.py:read', kind='OSError')}"
    assert described(caused) == described(text) == ("ValueError", "no", "send in mail.py")


def test_a_message_is_described_with_placeholders() -> None:
    text = error("user 7 ('ada') at 10.0.0.1:80 since 2026-01-02: /tmp/x", kind="app.errors.Gone")
    message = "user <number> (<text>) at <address> since <time>: <path>"
    assert described(text) == ("app.errors.Gone", message, "")
    assert len(described(error("many words " * 500)).message) == MOST_MESSAGE_CHARACTERS


def test_the_message_of_a_secret_task_counts_nowhere() -> None:
    def fail(message: str) -> BaseException:
        try:
            raise LookupError(message)
        except LookupError as error:
            return error

    one, other = fail("pin of ada"), fail("code of bo")
    assert fingerprint("t", describe(one)) != fingerprint("t", describe(other))
    assert fingerprint("t", withheld(one)) == fingerprint("t", withheld(other))
    assert fingerprint("t", withheld(one)) == fingerprint("t", describe(other), secret=True)
    assert described(describe(one), secret=True).message == ""
    assert described(withheld(one)).message == ""
    assert described(withheld(one)).frame == described(describe(one)).frame != ""


@given(st.text(), st.text())
@example("send", "\ud800")
@example("", "")
@example("send", ':\n  File "')
def test_any_text_has_a_fingerprint(task: str, text: str) -> None:
    assert len(fingerprint(task, text)) == FINGERPRINT_DIGITS
    assert fingerprint(task, text) == fingerprint(task, text)
    found = described(text)
    assert len(found.message) <= MOST_MESSAGE_CHARACTERS
    assert "\n" not in found.message


@settings(max_examples=25)
@given(st.from_regex(r"[\w '\"`/\\:.@\[\]<>-]{1,80}", fullmatch=True))
def test_of_a_megabyte_only_the_beginning_counts(part: str) -> None:
    text = part * (1_000_000 // len(part))
    assert normalised(text) == normalised(text[:MOST_READ_CHARACTERS])
    assert fingerprint("send", error(text)) == fingerprint("send", error(f"{text} and more"))


HARD = [
    "'",
    "\\'",
    "a.",
    "a@",
    "/a",
    "1:",
    "0a",
    "a-",
    "1.",
    '"\\',
    "::1:",
    "Jan 1 ",
    "a" * 64 + "/",
]


@pytest.mark.parametrize("part", HARD)
def test_no_hard_text_takes_long(part: str) -> None:
    """It takes a few milliseconds of processor time; a repetition that is not bounded would take
    minutes."""
    begun = time.thread_time()
    for text in (part * (1_000_000 // len(part)), f"x {part * 1000} {part * 1000}!"):
        fingerprint("send", error(text))
    frames = [f"/app/{part}.py:f"] * 5000
    fingerprint("send", error("no", *frames))
    assert time.thread_time() - begun < 1.0
