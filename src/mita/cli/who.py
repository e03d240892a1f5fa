"""Who runs a command: the name for timelines and for the audit log."""

import getpass
import os
import socket

WHO_VARIABLE = "MITA_WHO"  # of the environment


def who() -> str:
    """The name in `$MITA_WHO`, else that of the system's user."""
    if named := os.environ.get(WHO_VARIABLE, "").strip():
        return named
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name
        number = f" {os.getuid()}" if hasattr(os, "getuid") else ""
        return f"user{number}"


def timeline_note(reason: str) -> str:
    """The note for the timeline of a job: the reason, if one was given, and the name of the
    user."""
    by = f"by {who()} on {socket.gethostname()}"
    return f"{reason}; {by}" if reason else by
