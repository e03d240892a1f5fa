"""The search box: words like `queue:mail state:failed timeout` become filters. Pure."""

import re

from mita.client.filters import FILTERS

_WORD = re.compile(r'(?:(?P<name>[a-z]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+))')
# the id of a job, or its beginning: hexadecimal digits that begin with a time
_ID = re.compile(r"[0-9a-f]{8,32}(\.[0-9a-f]+)*")


def as_id(text: str) -> str | None:
    """Return the text if it looks like the id of a job; None if not."""
    given = text.strip().lower()
    return given if _ID.fullmatch(given) else None


def as_filters(text: str) -> dict[str, str]:
    """Return the filters that a search means. A word without a name is looked for in errors."""
    found: dict[str, str] = {}
    errors: list[str] = []
    for word in _WORD.finditer(text):
        value = word["quoted"] if word["quoted"] is not None else word["plain"]
        if word["name"] in FILTERS:
            found[word["name"]] = value
        else:
            errors.append(word[0] if word["name"] else value)
    if errors and "error" not in found:
        found["error"] = " ".join(errors)
    return {name: value for name, value in found.items() if value}


def as_text(filters: dict[str, str]) -> str:
    """Return the search that means these filters."""
    words = [
        f'{name}:"{value}"' if " " in value else f"{name}:{value}"
        for name, value in filters.items()
        if value
    ]
    return " ".join(words)
