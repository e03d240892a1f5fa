"""The shape of each state, so that nobody must tell states apart by their colour."""

from mita.model.record import DisplayState

from .markup import element

MARK_SIZE_PIXELS = 12
BOX_PIXELS = 16  # the shapes are drawn in a box of this size
GONE = "gone"
SLEEPING = "sleeping"

_CIRCLE = "M14 8A6 6 0 1 1 2 8A6 6 0 1 1 14 8Z"
_FILLED = {
    DisplayState.RUNNING.value: "M4 2.5 13 8 4 13.5z",
    SLEEPING: "M10 2A6.3 6.3 0 1 0 14.5 11A5.4 5.4 0 0 1 10 2Z",
}
_DRAWN = {
    DisplayState.WAITING.value: "M4 2h8M4 14h8M5 2c0 4 6 4 6 6s-6 2-6 6M11 2c0 4-6 4-6 6",
    DisplayState.SCHEDULED.value: f"{_CIRCLE}M8 4.5V8l2.5 1.5",
    DisplayState.READY.value: "M13.5 8A5.5 5.5 0 1 1 2.5 8A5.5 5.5 0 1 1 13.5 8Z",
    DisplayState.BLOCKED.value: "M2.5 2.5H13.5V13.5H2.5ZM5.5 8H10.5",
    DisplayState.SUCCEEDED.value: "M2.5 8.5 6.5 12.5 13.5 4",
    DisplayState.FAILED.value: "M3 3l10 10M13 3 3 13",
    DisplayState.CANCELLED.value: f"{_CIRCLE}M4 12 12 4",
    GONE: "M3 8H13",
}


def shape(state: str, x: float = 0, y: float = 0) -> str:
    """The shape of a state as a path, with its upper left corner here. A state that is not known is
    drawn as one that is gone."""
    is_filled = state in _FILLED
    path = _FILLED.get(state) or _DRAWN.get(state, _DRAWN[GONE])
    known = state if is_filled or state in _DRAWN else GONE
    kind = "filled" if is_filled else "drawn"
    moved = f"translate({x:g} {y:g}) scale({MARK_SIZE_PIXELS / BOX_PIXELS:g})"
    return element("path", d=path, class_=f"mark {kind} state-{known}", transform=moved)


def state_mark(state: str) -> str:
    """The shape of a state as a small picture of its own. The word of the state must stand beside
    it: screen readers skip the shape."""
    return element(
        "svg",
        shape(state),
        class_="state-mark",
        width=MARK_SIZE_PIXELS,
        height=MARK_SIZE_PIXELS,
        viewBox=f"0 0 {MARK_SIZE_PIXELS} {MARK_SIZE_PIXELS}",
        aria_hidden="true",
        focusable="false",
    )
