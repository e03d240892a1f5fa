"""The signals that stop a process."""

import signal
from collections.abc import Callable

from mita.engine.stop_signals import call_on_signals, usual_stop_signals


def on_stop(act: Callable[[], None]) -> None:
    """Call the function for each SIGTERM and Ctrl-C; also when the terminal is closed, unless the
    process ignores that (`nohup`)."""
    call_on_signals(stop_signals(), act)


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a process to stop."""
    usual = usual_stop_signals()
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
    if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN:
        return usual
    return [*usual, hang_up]
