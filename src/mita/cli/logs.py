"""The log of a worker: lines for people, or JSON for programs, on stderr."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from mita.ports.logs import trace_of
from mita.printable import printable, printable_json, printable_lines

LEVELS = ("debug", "info", "warning", "error")
_EXTRAS = ("event", "job", "task", "queue", "attempt", "seconds")


class JsonLines(logging.Formatter):
    """One JSON object per line. Error texts are cut and cleaned as in the plain log."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        line.update({name: record.__dict__[name] for name in _EXTRAS if name in record.__dict__})
        if record.exc_text or record.exc_info:
            line["error"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        return printable_json(json.dumps(line, default=str, ensure_ascii=False))


class PlainLines(logging.Formatter):
    """Removes control characters from the lines of other loggers; Mita's own loggers do that
    themselves."""

    # the name is logging's
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line without control characters."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """The traceback without control characters."""
        return trace_of(ei[1])

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """The stack without control characters."""
        return printable_lines(stack_info)


def write_logs(level: str, *, as_json: bool) -> None:
    """Set up logging, unless the program has done so."""
    handler = logging.StreamHandler(sys.stderr)
    plain = PlainLines("%(asctime)s %(levelname)-7s [%(process)d] %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    logging.basicConfig(level=level.upper(), handlers=[handler])
