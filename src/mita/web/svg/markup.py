"""Elements, attributes and text of SVG, escaped."""

from datetime import timedelta
from html import escape

from mita.model.time import SECOND
from mita.printable import printable
from mita.rules.display import span

_ELLIPSIS = "…"


def text_of(value: object) -> str:
    """Text for the inside of an element: escaped, and without control characters."""
    return escape(printable(str(value)))


def number(value: float) -> str:
    """A coordinate, as short as it can be: `12`, `12.35`."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def percent(share: float) -> str:
    """A part of the picture's width, `12.5%`, for a share from 0 to 1."""
    return f"{number(round(share * 100, 3))}%"


def element(name: str, inside: str = "", /, **attributes: object) -> str:
    """One element. `inside` is markup that is escaped already. An underscore in the name of an
    attribute is a hyphen (`class_` is `class`); an attribute that is None is left out; numbers are
    coordinates."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _attribute(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return number(float(value)) if is_number else text_of(value)  # type: ignore[arg-type]


def title(words: str) -> str:
    """What browsers show while the pointer rests on the element, and what screen readers say."""
    return f"<title>{text_of(words)}</title>"


def cut(text: str, most: int) -> str:
    """The text with at most this many characters, the last one an ellipsis if it was cut."""
    line = printable(text)
    return line if len(line) <= most else line[: max(most - 1, 0)] + _ELLIPSIS


def length_text(between: timedelta) -> str:
    """`850 ms`, `4.2 s`, `3 m 20 s`; never negative."""
    return span(max(round(between.total_seconds() * SECOND), 0))
