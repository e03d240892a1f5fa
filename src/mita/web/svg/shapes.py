"""The shape of each state, so that nobody must tell states apart by their colour."""

from mita.model.record import DisplayState

from .markup import element

MARK_SIZE_PIXELS = 12
GONE = "gone"
SLEEPING = "sleeping"

_CIRCLE = "M11 6A5 5 0 1 1 1 6A5 5 0 1 1 11 6Z"
# in a box of 12 by 12; filled, or drawn as lines
_FILLED = {
    DisplayState.RUNNING.value: "M2.5 1L11 6L2.5 11Z",
    DisplayState.BLOCKED.value: "M1 4.5H11V11H1ZM3.2 4.5V3.6A2.8 2.8 0 0 1 8.8 3.6V4.5"
    "H7.3V3.6A1.3 1.3 0 0 0 4.7 3.6V4.5Z",
    SLEEPING: "M7.5 1A5 5 0 1 0 11 8.5A4.2 4.2 0 0 1 7.5 1Z",
}
_DRAWN = {
    DisplayState.WAITING.value: _CIRCLE,
    DisplayState.SCHEDULED.value: f"{_CIRCLE}M6 3.2V6L8.2 7.4",
    DisplayState.READY.value: "M2.5 1.5L10.5 6L2.5 10.5Z",
    DisplayState.SUCCEEDED.value: "M1.5 6.5L4.6 9.8L10.5 2.5",
    DisplayState.FAILED.value: "M2 2L10 10M10 2L2 10",
    DisplayState.CANCELLED.value: f"{_CIRCLE}M2.6 9.4L9.4 2.6",
    GONE: "M2 6H10",
}


def shape(state: str, x: float = 0, y: float = 0) -> str:
    """The shape of a state as a path, with its upper left corner here. A state that is not known is
    drawn as one that is gone."""
    is_filled = state in _FILLED
    path = _FILLED.get(state) or _DRAWN.get(state, _DRAWN[GONE])
    known = state if is_filled or state in _DRAWN else GONE
    kind = "filled" if is_filled else "drawn"
    moved = f"translate({x:g} {y:g})" if x or y else None
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
