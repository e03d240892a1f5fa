"""Pictures as SVG text, for pages: charts, sparklines, the timeline of a job, the graph of a flow.

Each is a pure function of its values: no clock, no I/O. It returns markup that may be put into a
page as it is: all text is escaped, and there are no scripts and no style attributes, so that a
strict content security policy allows it. Colours come from CSS classes (`static/pictures.css`),
states are told apart by a shape and a word, too. Every picture has `role="img"` and a label that
says in words what it shows.

`bar_chart`, `line_chart` and `chart_table` draw numbers over time; `sparkline` draws a row of
numbers as wide as a word; `job_timeline` draws where the time of a job went; `flow_graph` draws the
steps of a flow. `state_mark` is the shape of a state."""

from .chart import ChartSeries, bar_chart, chart_table, line_chart
from .flow_graph import flow_graph
from .job_timeline import job_timeline
from .shapes import state_mark
from .sparkline import sparkline

__all__ = [
    "ChartSeries",
    "bar_chart",
    "chart_table",
    "flow_graph",
    "job_timeline",
    "line_chart",
    "sparkline",
    "state_mark",
]
