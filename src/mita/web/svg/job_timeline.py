"""The timeline of a job, drawn to scale: waiting, running, sleeping, and what happened when."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from mita.model.record import JobRecord

from .broken_scale import BrokenScale, Stretch
from .job_spans import RUNNING, JobMark, JobSpan, marks_of, spans_of
from .markup import element, length_text, percent, text_of, title
from .shapes import MARK_SIZE_PIXELS, shape
from .ticks import clock_kind, round_times, time_text, zone_text

_BAR_TOP_PIXELS = 22
_BAR_HEIGHT_PIXELS = 26
_MARKS_TOP_PIXELS = 54
_AXIS_TOP_PIXELS = 74
_HEIGHT_PIXELS = 96
_MOST_TIMES = 6
_LETTER_SHARE = 0.0068  # of the width that a letter takes at 1,100 pixels
_NARROW_LETTER_SHARE = 0.021  # and at 350 pixels
_EDGE_SHARE = 0.12  # a label nearer to the edge would be cut
_TOUCHING_SHARE = 0.02  # marks nearer to each other are drawn as one
# the shape of what happened; all other kinds are drawn as a diamond
_SHAPES = {
    "blocked": "blocked",
    "cancelled": "cancelled",
    "expired": "cancelled",
    "crashed": "failed",
    "failed": "failed",
    "retried": "failed",
    "rescheduled": "scheduled",
    "queued": "ready",
    "revived": "ready",
    "sleeping": "sleeping",
    "waiting": "waiting",
}
_DIAMOND = "M6 1L11 6L6 11L1 6Z"


def job_timeline(job: JobRecord, now: datetime, *, zone: tzinfo = UTC) -> str:
    """Where the time of a job went, from its creation until its end, or until `now` (or until it is
    due, if that is later). Long stretches in which nothing happened are cut short, if they would
    leave no room for the rest; they are marked and labelled. Empty if no time has passed."""
    spans = spans_of(job, now)
    if not spans:
        return ""
    marks = marks_of(job)
    times = [mark.at for mark in marks]
    start = min([spans[0].start, *times])
    end = max([one.end for one in spans] + times)
    quiet = [(one.start, one.end) for one in spans if one.kind != RUNNING]
    scale = BrokenScale(start, end, _between(quiet, [*times, now]))
    drawn = (
        "".join(_bar(one, scale) for one in spans)
        + "".join(_cut(one) for one in scale.cuts)
        + (_now(scale.at(now)) if start < now < end else "")
        + "".join(_mark(group, scale) for group in _grouped(marks, scale))
        + _axis(scale, zone)
    )
    return element(
        "svg",
        title(_described(spans, marks, scale)) + drawn,
        class_="job-timeline",
        width="100%",
        height=_HEIGHT_PIXELS,
        role="img",
    )


def _between(
    quiet: Sequence[tuple[datetime, datetime]], times: Sequence[datetime]
) -> list[tuple[datetime, datetime]]:
    """The quiet stretches, divided where something happened."""
    found = []
    for start, end in quiet:
        points = [start, *sorted(at for at in set(times) if start < at < end), end]
        found += list(pairwise(points))
    return found


# ---------------------------------------------------------------- what is drawn


def _bar(one: JobSpan, scale: BrokenScale) -> str:
    left, right = scale.at(one.start), scale.at(one.end)
    how = f" {one.how}" if one.how else ""
    bar = element(
        "rect",
        title(_words(one)),
        x=percent(left),
        width=percent(right - left),
        y=_BAR_TOP_PIXELS,
        height=_BAR_HEIGHT_PIXELS,
        class_=f"span span-{one.kind}{how}" + (" open" if one.is_open else ""),
    )
    return bar + _label(one, left, right)


def _label(one: JobSpan, left: float, right: float) -> str:
    """The words of a stretch above it, as far as there is room: on every screen, on wide ones only,
    or not at all."""
    long = f"{one.kind} {length_text(one.end - one.start)}"
    if one.attempt:
        long = f"run {one.attempt}: {length_text(one.end - one.start)}"
    for words in (long, f"run {one.attempt}" if one.attempt else ""):
        if words and len(words) * _LETTER_SHARE <= right - left:
            fits_all = len(words) * _NARROW_LETTER_SHARE <= right - left
            return element(
                "text",
                text_of(words),
                x=percent(left),
                dx=2,
                y=_BAR_TOP_PIXELS - 6,
                font_size=11,
                class_="tick" if fits_all else "tick wide-only",
            )
    return ""


def _cut(one: Stretch) -> str:
    """Two slanted lines through the bar, and how long the stretch really is."""
    middle = (one.left + one.right) / 2
    top, bottom = _BAR_TOP_PIXELS - 3, _BAR_TOP_PIXELS + _BAR_HEIGHT_PIXELS + 3
    lines = element(
        "path",
        d=f"M-6 {bottom}L0 {top}H6L0 {bottom}Z",
        class_="cut-gap",
    ) + element("path", d=f"M-6 {bottom}L0 {top}M0 {bottom}L6 {top}", class_="cut-line")
    slash = element("svg", lines, x=percent(middle), y=0, overflow="visible", width=1, height=1)
    words = f"{length_text(one.end - one.start)}, not to scale"
    label = element(
        "text",
        text_of(words),
        x=percent(middle),
        y=_AXIS_TOP_PIXELS - 8,
        text_anchor="middle" if one.left > _EDGE_SHARE else "start",
        font_size=11,
        class_="tick wide-only",
    )
    return element("g", title(words) + slash + label)


def _now(share: float) -> str:
    line = element(
        "line",
        x1=percent(share),
        x2=percent(share),
        y1=_BAR_TOP_PIXELS - 6,
        y2=_AXIS_TOP_PIXELS,
        class_="now",
    )
    anchor = "end" if share > 0.5 else "start"
    label = element(
        "text", "now", x=percent(share), dx=-3, y=_BAR_TOP_PIXELS - 10, text_anchor=anchor,
        font_size=11, class_="tick now-label",
    )  # fmt: skip
    return line + label


def _grouped(marks: Sequence[JobMark], scale: BrokenScale) -> list[list[JobMark]]:
    """Marks that would touch each other are one group, which is drawn where its first one is."""
    groups: list[list[JobMark]] = []
    for mark in sorted(marks, key=lambda each: each.at):
        if groups and scale.at(mark.at) - scale.at(groups[-1][0].at) < _TOUCHING_SHARE:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return groups


def _mark(group: Sequence[JobMark], scale: BrokenScale) -> str:
    newest = group[-1]
    half = MARK_SIZE_PIXELS / 2
    known = _SHAPES.get(newest.kind)
    diamond = element("path", d=_DIAMOND, class_="mark drawn", transform=f"translate({-half:g} 0)")
    drawn = shape(known, -half) if known else diamond
    count = (
        element("text", f"{len(group)}", x=half + 1, y=10, font_size=10, class_="tick")
        if len(group) > 1
        else ""
    )
    words = "; ".join(_said(mark) for mark in group)
    share = min(max(scale.at(group[0].at), 0.006), 0.985)
    return element(
        "svg",
        title(words) + drawn + count,
        x=percent(share),
        y=_MARKS_TOP_PIXELS,
        width=1,
        height=MARK_SIZE_PIXELS,
        overflow="visible",
        class_="timeline-mark",
    )


def _axis(scale: BrokenScale, zone: tzinfo) -> str:
    line = element(
        "line", x1="0", x2="100%", y1=_AXIS_TOP_PIXELS, y2=_AXIS_TOP_PIXELS, class_="axis"
    )
    start, end = scale.start.astimezone(zone), scale.end.astimezone(zone)
    if scale.cuts:
        edges = {one.start for one in scale.stretches} | {end}
        found = sorted(at.astimezone(zone) for at in edges)
    else:
        found = round_times(start, end, _MOST_TIMES, zone)
    parts, last, kind = [line], -1.0, clock_kind(start, end)
    for place, at in enumerate(found):
        share = scale.at(at)
        if share - last < 0.1 and last >= 0:
            continue
        last = share
        words = time_text(at, start, end) + zone_text(place, at, kind)
        parts.append(_time(share, at, words, kind, narrow=place % 2 == 0))
    return "".join(parts)


def _time(share: float, at: datetime, words: str, kind: str, *, narrow: bool) -> str:
    anchor = "start" if share < _EDGE_SHARE else "end" if share > 1 - _EDGE_SHARE else "middle"
    stroke = element(
        "line", x1=percent(share), x2=percent(share), y1=_AXIS_TOP_PIXELS,
        y2=_AXIS_TOP_PIXELS + 4, class_="axis",
    )  # fmt: skip
    return stroke + element(
        "text",
        text_of(words),
        x=percent(share),
        y=_HEIGHT_PIXELS - 6,
        text_anchor=anchor,
        font_size=11,
        class_="tick" if narrow else "tick wide-only",
        data_at=at.astimezone(UTC).isoformat(),
        data_clock=kind,
    )


# ---------------------------------------------------------------- words


def _words(one: JobSpan) -> str:
    what = f"run {one.attempt}" if one.attempt else one.kind
    hidden = ", and in it a run whose start is not known" if one.hides_run else ""
    by = f" on {one.worker}" if one.worker else ""
    how = f", {one.how}" if one.how else ", not over" if one.is_open else ""
    when = f"{one.start.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{what}{by}: {length_text(one.end - one.start)} from {when}{how}{hidden}"


def _said(mark: JobMark) -> str:
    note = f": {mark.note}" if mark.note else ""
    return f"{mark.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC {mark.kind}{note}"


def _described(spans: Sequence[JobSpan], marks: Sequence[JobMark], scale: BrokenScale) -> str:
    totals: dict[str, float] = {}
    for one in spans:
        totals[one.kind] = totals.get(one.kind, 0) + (one.end - one.start).total_seconds()
    parts = [
        f"{kind} {length_text(timedelta(seconds=seconds))}" for kind, seconds in totals.items()
    ]
    cut = f"; {len(scale.cuts)} long stretches are not to scale" if scale.cuts else ""
    events = f"; {len(marks)} events" if marks else ""
    return f"timeline of the job: {', '.join(parts)}{events}{cut}"
