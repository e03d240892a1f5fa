from datetime import UTC, datetime, timedelta

import pytest

from mita.web.svg import ChartSeries, bar_chart, chart_table, line_chart, sparkline

from .reading import NASTY, parsed, picture, share, with_class, words

START = datetime(2026, 11, 16, 16, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TIMES = [START + n * MINUTE for n in range(60)]
DONE = ChartSeries("succeeded", "series-succeeded", tuple(float(n * 20) for n in range(60)))
FAILED = ChartSeries("failed", "series-failed", (0.0,) * 59 + (1.0,))


def bars(**changes: object) -> str:
    return bar_chart("jobs per minute", TIMES, [DONE, FAILED], each=MINUTE)


def test_a_chart_says_what_it_shows() -> None:
    said = words(picture(bars(), "chart-plot"))
    assert said == (
        "jobs per minute, 2026-11-16 16:00 to 2026-11-16 17:00 UTC: succeeded 35,400, failed 1"
    )


def test_everything_is_inside_the_chart() -> None:
    plot = picture(bars(), "chart-plot")
    high = float(plot.attrib["height"])
    for one in plot.iter("rect"):
        assert share(one, "x") >= 0
        assert share(one, "x") + share(one, "width") <= 1.0001
        assert float(one.attrib["y"]) >= 0
        assert float(one.attrib["y"]) + float(one.attrib["height"]) <= high
    for one in plot.iter("text"):
        assert 0 <= share(one, "x") <= 1
        assert 0 <= float(one.attrib["y"]) <= high


def test_bars_are_as_high_as_their_numbers_and_stand_on_each_other() -> None:
    plot = picture(bars(), "chart-plot")
    done = [float(one.attrib["height"]) for one in with_class(plot, "series-succeeded")]
    assert len(done) == 59, "a bar of 0 is not drawn"
    assert done[-1] / done[28] == pytest.approx(59 / 29, rel=0.01)
    [failed] = with_class(plot, "series-failed")
    assert float(failed.attrib["height"]) == 2, "one failure among a thousand is seen"
    *_, last = with_class(plot, "series-succeeded")
    assert float(failed.attrib["y"]) + 2 == pytest.approx(float(last.attrib["y"]))


def test_each_bar_has_its_numbers_in_words() -> None:
    plot = picture(bars(), "chart-plot")
    *_, last = with_class(plot, "hit")
    assert words(last) == "2026-11-16 16:59 UTC: 1,180 succeeded, 1 failed"


def test_some_times_are_only_for_wide_screens() -> None:
    plot = picture(bars(), "chart-plot")
    ticks = [one for one in with_class(plot, "tick") if one.tag == "text"]
    narrow = [one for one in ticks if "wide-only" not in one.attrib["class"]]
    assert [one.text for one in ticks] == [
        *("16:00 UTC", "16:10", "16:20", "16:30", "16:40", "16:50", "17:00"),
    ]
    assert 2 <= len(narrow) <= 4
    assert ticks[0].attrib["data-at"] == "2026-11-16T16:00:00+00:00"
    assert {one.attrib["data-clock"] for one in ticks} == {"minute"}
    assert (ticks[0].attrib["text-anchor"], ticks[-1].attrib["text-anchor"]) == ("start", "end")


@pytest.mark.parametrize("draw", [bar_chart, line_chart])
def test_a_chart_of_nothing_says_so(draw: object) -> None:
    assert callable(draw)
    for times, series in (([], []), ([], [DONE]), (TIMES, []), (TIMES[:1], [])):
        markup = draw("jobs", times, series, each=MINUTE)
        assert "nothing in this time" in markup or series
        picture(markup, "chart-plot")


def test_numbers_that_are_none_are_drawn_as_nothing() -> None:
    odd = ChartSeries("odd", "series-failed", (float("nan"), float("inf"), -3.0, 2.0))
    plot = picture(bar_chart("odd", TIMES[:5], [odd], each=MINUTE), "chart-plot")
    assert len(list(with_class(plot, "bar"))) == 1


def test_lines_are_told_apart_without_colours() -> None:
    plot = picture(line_chart("jobs", TIMES, [DONE, FAILED], each=MINUTE), "chart-plot")
    lines = list(plot.iter("polyline"))
    assert [one.attrib["class"].split()[1] for one in lines] == ["line-0", "line-1"]
    assert len(lines[0].attrib["points"].split()) == 60


def test_the_table_has_the_same_numbers() -> None:
    tree = parsed(chart_table("jobs per minute", TIMES, [DONE, FAILED]))
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    assert rows[0] == ["time", "succeeded", "failed"]
    assert rows[-1] == ["2026-11-16 16:59 UTC", "1,180", "1"]
    assert len(rows) == 60, "the minute without jobs is left out"
    assert "1 rows in which all numbers are 0 are left out" in (tree.findtext(".//caption") or "")


def test_text_is_escaped() -> None:
    series = [ChartSeries(NASTY, "series-failed", (1.0,))]
    for markup in (
        bar_chart(NASTY, TIMES[:1], series, each=MINUTE),
        line_chart(NASTY, TIMES[:1], series, each=MINUTE),
        chart_table(NASTY, TIMES[:1], series),
        sparkline([1], NASTY),
    ):
        assert "<script" not in markup
        assert "&lt;script" in "".join(markup)
        parsed(markup)


# ---------------------------------------------------------------- sparklines


def test_a_sparkline_is_as_high_as_its_highest_number() -> None:
    line = picture(sparkline([0, 1, 4, 2], "failures by hour"), "sparkline")
    heights = [float(one.attrib["height"]) for one in line.iter("rect")]
    assert heights == [pytest.approx(19 / 4), 19, 19 / 2]
    assert words(line) == "failures by hour"


@pytest.mark.parametrize("values", [[], [0], [0.0] * 500, [float("nan"), -1]])
def test_a_sparkline_of_nothing_is_a_line(values: list[float]) -> None:
    line = picture(sparkline(values, "nothing"), "sparkline")
    assert not list(line.iter("rect"))
    assert len(list(with_class(line, "axis"))) == 1


def test_a_sparkline_stays_inside_its_box() -> None:
    line = picture(sparkline(range(500), "many", width_px=60, height_px=10), "sparkline")
    assert line.attrib["viewBox"] == "0 0 60 10"
    for one in line.iter("rect"):
        assert 0 <= float(one.attrib["x"]) <= 60
        assert float(one.attrib["x"]) + float(one.attrib["width"]) <= 60.01
        assert 0 <= float(one.attrib["y"]) <= 10
