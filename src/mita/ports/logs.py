"""The loggers of Mita, and what they write."""

import logging
from traceback import format_exception

from mita.printable import printable, printable_lines

LOGGERS = (
    "mita.web",
    "mita.worker",
    "mita.client",
    "mita.store",
    "mita.nats",
    "mita.scheduler",
    "mita.relay",
    "mita.repeats",
    "mita.events",
    "mita.metrics",
    "mita.cli",
    "mita.django",
)


class _Printable(logging.Filter):
    """A filter for messages, which contain names, errors and reasons from jobs: it replaces control
    characters, so that they cannot control a terminal or look like another log line, whatever
    handlers and formatters a program has."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        clean = printable(text)
        if clean != text:
            record.msg, record.args = clean, ()
        # the formatters of the standard library take this text as it is
        if record.exc_info and not record.exc_text:
            record.exc_text = trace_of(record.exc_info[1])
        return True


_PRINTABLE = _Printable()


def make_logs_printable() -> None:
    """Replace control characters in all log lines of Mita."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_PRINTABLE)


def trace_of(error: BaseException | None) -> str:
    """The traceback as text, for a log."""
    return printable_lines("".join(format_exception(error)).rstrip("\n"))
