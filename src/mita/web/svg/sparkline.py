"""A row of numbers as a picture that fits into a line of text."""

import math
from collections.abc import Sequence

from .markup import element, title

_GAP_PIXELS = 1
_LEAST_BAR_PIXELS = 1.5  # a number above 0 is never drawn as nothing


def sparkline(
    values: Sequence[float],
    label: str,
    *,
    width_px: int = 96,
    height_px: int = 20,
    css: str = "",
) -> str:
    """Bars from left to right, the highest as high as the picture; numbers that are 0 or less, or
    no numbers, have only the line at the bottom. `label` says in words what it shows. `css` is the
    class of its colour."""
    clean = [value if math.isfinite(value) and value > 0 else 0.0 for value in values]
    highest = max(clean, default=0.0)
    slot = width_px / max(len(clean), 1)
    gap = _GAP_PIXELS if slot > 2 * _GAP_PIXELS else 0
    room = height_px - 1
    bars = "".join(
        _bar(at * slot, max(value / highest * room, _LEAST_BAR_PIXELS), slot - gap, room)
        for at, value in enumerate(clean)
        if value
    )
    bottom = element(
        "path", d=f"M0 {height_px - 0.5:g}H{width_px}", class_="axis", vector_effect="none"
    )
    return element(
        "svg",
        title(label) + bars + bottom,
        class_=f"sparkline {css}".strip(),
        width=width_px,
        height=height_px,
        viewBox=f"0 0 {width_px} {height_px}",
        role="img",
    )


def _bar(x: float, high: float, width: float, room: float) -> str:
    return element("rect", x=x, y=room - high, width=width, height=high, class_="bar")
