"""Fingerprints of failures: jobs that failed for the same reason have the same one.

A fingerprint is made of the task, the type of the error, its message without what differs from job
to job (numbers, ids, quoted texts, paths, addresses, times), and the innermost function of the
user's code. It has no line number, so that an edit of the file does not change it. The message of a
secret task is left out: its error text does not have it either."""

import re
import sysconfig
from hashlib import sha256
from typing import NamedTuple

from .failures import TRACE, head, type_of

FINGERPRINT_DIGITS = 16  # hexadecimal
MOST_READ_CHARACTERS = 2000  # of a message; what is behind them is not looked at
MOST_MESSAGE_CHARACTERS = 200  # of a message without what differs
WITHHELD_MESSAGE = "(text withheld"  # how `engine.outcomes` begins the message of a secret task

_CAUSE = "\ncaused by "
_FRAME = re.compile(r'^  File "([^"\n]+)", line \d+, in ([^\n]+)$', re.MULTILINE)
_SEPARATOR = re.compile(r"[\\/]")

# --------------------------------------------------------------- which code is not the user's

_FOREIGN = re.compile(r"[\\/](site|dist)-packages[\\/]|[\\/]python\d\.\d+[\\/]|^<frozen ")
_FOREIGN_FOLDERS = tuple(
    {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        __file__.rpartition("rules")[0],  # Mita itself
    }
)

# --------------------------------------------------------------- what differs from job to job

# Tried at each position in this order; the first that matches stands for the text. Repetitions are
# bounded or end at the next blank, so that the time does not explode with the length.
_PLACEHOLDERS = {
    "text": r"""(?<![\w'])[brufBRUF]{0,2}'(?:[^'\\]|\\.)*'(?!\w)"""
    r"""|(?<!\w)[brufBRUF]{0,2}"(?:[^"\\]|\\.)*"|`[^`]*`|“[^”]*”|«[^»]*»""",
    "url": r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s,;)\]}>]+",
    "address": r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?(?![\w.]*\d)"
    r"|\[?(?<![\w:])(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}(?![\w:])\]?(?::\d{1,5})?"
    r"|\[?(?<![\w:])(?:[0-9a-fA-F]{1,4}:){1,6}(?::[0-9a-fA-F]{1,4}){1,6}(?![\w:])\]?(?::\d{1,5})?"
    r"|\[?(?<![\w:])::(?:[0-9a-fA-F]{1,4}:){0,6}[0-9a-fA-F]{1,4}(?![\w:])\]?(?::\d{1,5})?",
    "time": r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?"
    r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?(?!\w)"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{4}\b"
    r"|\b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?\d{1,2} "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{4}"
    r"(?: \d\d:\d\d(?::\d\d)?(?: (?:GMT|UTC|[+-]\d{4}))?)?"
    r"|\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?!\w)",
    "path": r"(?<![\w<>/\\])(?:[A-Za-z]:|~|\.{1,2})?(?:[\\/]+[\w.@%+~=,-]+)+[\\/]?"
    r"|(?<![\w<>/\\.])[\w.@%+~-]{1,64}(?:/[\w.@%+~-]{1,64}){2,}"
    r"|(?<![\w<>/\\.])[\w.@%+~-]{1,64}/[\w@%+~-]{1,64}\.[A-Za-z]\w{0,4}\b",
    "word": r"[^\W_](?:[\w-]*[^\W_])?",
    "blank": r"\s+",
}
_DIFFERING = re.compile("|".join(f"(?P<{name}>{text})" for name, text in _PLACEHOLDERS.items()))
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][+-]?\d+)?")
_DIGITS = re.compile(r"\d+")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+|(?=.*\d)[0-9a-fA-F]{8,}")
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}")
_LONG_ID_CHARACTERS = 16  # a word with digits and letters that is this long is an id
_WHOLE_NUMBER = re.compile(r"(?:(?<![\w>])[-+])?<number>(?:[.,:]<number>)*")


class FailureDescription(NamedTuple):
    """What a fingerprint is made of, beside the task. `message` has placeholders such as <number>
    for what differs; it is empty for a secret task. `frame` is a function and its file; it is empty
    if the error did not come from the user's code."""

    type: str
    message: str
    frame: str


def fingerprint(task: str, error: str, *, secret: bool = False) -> str:
    """Returns the fingerprint of a job of this task that failed with this error text. `secret`: the
    task is secret, so the message does not count."""
    parts = (task, *described(error, secret=secret))
    text = "\0".join(parts).encode("utf-8", "backslashreplace")
    return sha256(text).hexdigest()[:FINGERPRINT_DIGITS]


def described(error: str, *, secret: bool = False) -> FailureDescription:
    """Returns the type of an error, its message without what differs from job to job, and where in
    the user's code it came from. `secret`: without the message."""
    first = error.partition(_CAUSE)[0]
    kind = type_of(first)
    message = "" if secret else _message(first, kind)
    return FailureDescription(kind, message, _frame(first))


def _message(error: str, kind: str) -> str:
    """The first line of the message that is not empty, without what differs."""
    text = head(error)[len(kind) : len(kind) + MOST_READ_CHARACTERS].removeprefix(":")
    line = next((line for line in text.split("\n") if line.strip()), "")
    return "" if line.lstrip().startswith(WITHHELD_MESSAGE) else normalised(line)


def normalised(text: str) -> str:
    """Returns a message with placeholders for what differs from job to job."""
    same = _DIFFERING.sub(_placeholder, text[:MOST_READ_CHARACTERS]).strip()
    return _WHOLE_NUMBER.sub("<number>", same)[:MOST_MESSAGE_CHARACTERS]


def _placeholder(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind == "blank":
        return " "
    return _word(found[0]) if kind == "word" else f"<{kind}>"


def _word(word: str) -> str:
    """A word is kept, an id is not. Of other words only the digits are left out."""
    if word.isalpha():
        return word
    if _UUID.fullmatch(word) or _ULID.fullmatch(word) or _HEXADECIMAL.fullmatch(word):
        return "<number>" if word.isdecimal() else "<id>"
    if _NUMBER.fullmatch(word):
        return "<number>"
    has_digits = any(character.isdigit() for character in word)
    if has_digits and len(word) >= _LONG_ID_CHARACTERS and not word.isdecimal():
        return "<id>"
    return _DIGITS.sub("<number>", word)


def _frame(error: str) -> str:
    """The innermost frame of the user's code, as its function and the name of its file."""
    trace = error.find(TRACE)
    if trace < 0:
        return ""
    for path, function in reversed(_FRAME.findall(error, trace + 1)):
        if not _is_foreign(path):
            return f"{function} in {_SEPARATOR.split(path)[-1]}"
    return ""


def _is_foreign(path: str) -> bool:
    return path.startswith(_FOREIGN_FOLDERS) or _FOREIGN.search(path) is not None
