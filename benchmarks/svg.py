"""Drawing SVG pictures. Colours are classes, each with a value for light and for dark pages;
fonts are the reader's own."""

from collections.abc import Sequence
from html import escape

WIDTH = 760

_LIGHT_DARK = {  # class: (light, dark)
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "muted": ("#59636e", "#9198a1"),
    "grid": ("#d8dee4", "#30363d"),
    "grey": ("#9aa4af", "#6e7681"),
    "blue": ("#0969da", "#58a6ff"),
    "orange": ("#bc4c00", "#f0883e"),
    "green": ("#1a7f37", "#3fb950"),
    "red": ("#cf222e", "#ff7b72"),
    "purple": ("#8250df", "#bc8cff"),
    "sky": ("#54aeff", "#a5d6ff"),
    "navy": ("#0a3069", "#1f6feb"),
}

_SHAPES: tuple[tuple[tuple[float, float], ...], ...] = (
    ((-2, -5), (2, -5), (5, -2), (5, 2), (2, 5), (-2, 5), (-5, 2), (-5, -2)),
    ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    ((0, -5.5), (5, 4), (-5, 4)),
    ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    ((0, 5.5), (5, -4), (-5, -4)),
)


def _style() -> str:
    def rules(shade: int) -> str:
        return "".join(
            f".{name}{{fill:{pair[shade]}}}.{name}-line{{stroke:{pair[shade]};fill:none}}"
            for name, pair in _LIGHT_DARK.items()
        )

    return (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:13px}"
        f"{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"
    )


class Board:
    """Elements of one picture, in the order in which they are painted."""

    def __init__(self, title: str, about: str, height: float) -> None:
        self._title, self._about, self._height = title, about, height
        self._parts: list[str] = []
        self.rect(0, 0, WIDTH, height, "paper", round=8)
        self.text(20, 30, title, "ink", size=16, bold=True)

    def rect(
        self, x: float, y: float, width: float, height: float, colour: str, *, round: float = 0
    ) -> None:
        corner = f' rx="{round:g}"' if round else ""
        self._parts.append(
            f'<rect class="{colour}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"{corner}/>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, *, thick: float = 1.0
    ) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline class="{colour}-line" stroke-width="{thick:g}" points="{path}"/>'
        )

    def mark(self, x: float, y: float, colour: str, shape: int) -> None:
        """Draw a point. Shapes differ, so that colour is not the only difference."""
        around = _SHAPES[shape % len(_SHAPES)]
        path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in around)
        self._parts.append(f'<polygon class="{colour}" points="{path}"/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        anchor: str = "start",
        size: int = 0,
        bold: bool = False,
    ) -> None:
        style = (f"font-size:{size}px;" if size else "") + ("font-weight:600;" if bold else "")
        more = f' style="{style}"' if style else ""
        self._parts.append(
            f'<text class="{colour}" x="{x:.1f}" y="{y:.1f}" '
            f'text-anchor="{anchor}"{more}>{escape(text)}</text>'
        )

    def upright(self, x: float, y: float, text: str, colour: str = "muted") -> None:
        """Draw vertical text, for the name of an axis."""
        place = f'transform="translate({x:.1f} {y:.1f}) rotate(-90)" text-anchor="middle"'
        self._parts.append(f'<text class="{colour}" {place}>{escape(text)}</text>')

    def __str__(self) -> str:
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height:g}" '
            f'width="{WIDTH}" '
            f'height="{self._height:g}" role="img" aria-labelledby="t d">\n'
            f'<title id="t">{escape(self._title)}</title>\n<desc '
            f'id="d">{escape(self._about)}</desc>\n'
            f"<style>{_style()}</style>\n{body}\n</svg>\n"
        )


def steps(most: float, about: int = 5) -> list[float]:
    """Round numbers from 0 to at least `most`, for an axis."""
    if most <= 0:
        return [0.0, 1.0]
    size = 1.0
    while size * about * 10 <= most:
        size *= 10
    while size * about > most * 10:
        size /= 10
    step = next(
        size * times for times in (1, 2, 2.5, 5, 10, 20, 25, 50) if size * times * about >= most
    )
    count = int(-(-most // step))
    return [step * i for i in range(count + 1)]


def short(number: float) -> str:
    """`1.2M`, `240k`, `900`."""
    for size, name in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return (
                f"{number / size:g}{name}"
                if number % size == 0 or number >= 100 * size
                else f"{number / size:.3g}{name}"
            )
    return f"{number:g}"
