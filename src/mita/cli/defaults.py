"""Options that were not given on the command line: from `$MITA_…`, or from `[tool.mita]` of the
project."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from mita.errors import UsageError, did_you_mean
from mita.project import WORKER_SETTINGS, Setting, setting, settings

from .logs import LEVELS

_NOT_TOGETHER = {"queues", "exclude"}  # who gives one on the command line means only that


def chosen_app() -> str | None:
    """The app of `$MITA_APP` or of the project; None if there is none. The folder of the project is
    searched for its module."""
    found = setting("app")
    if found is None:
        return None
    folder = None if found.folder is None else str(found.folder)
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    return str(found.value)


def fill_worker_options(options: argparse.Namespace) -> None:
    """Set the options of `mita worker` that were not given. Raises `UsageError` for a setting that
    does not fit."""
    found, given = settings(), _given(options.parser, options.argv)
    left_out = given | (_NOT_TOGETHER if given & _NOT_TOGETHER else set())
    for name in WORKER_SETTINGS:
        if name in found and name not in left_out:
            if name == "log_level":
                _check_level(found[name])
            setattr(options, name, found[name].value)


def _check_level(given: Setting) -> None:
    if given.value not in LEVELS:
        meant = did_you_mean(given.value, LEVELS)
        raise UsageError(
            f"{given.source}: log_level = {given.value!r}{meant} Choose from {', '.join(LEVELS)}"
        )


def _given(parser: argparse.ArgumentParser, words: Sequence[str]) -> set[str]:
    """The options that these words set. An option may be shortened."""
    typed = [word.partition("=")[0] for word in words if word.startswith("-")]
    return {
        action.dest
        for action in parser._actions  # noqa: SLF001
        for name in action.option_strings
        if any(name == word or (len(word) > 2 and name.startswith(word)) for word in typed)
    }


def shown_settings(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Each setting with its value and where it comes from, for people."""
    found = settings()
    for name in ("app", "url", "namespace"):
        value = getattr(options, name, None)
        if value is not None and (name not in found or found[name].value != value):
            found[name] = Setting(value, f"--{name}")
    return [(name, _shown(name, one.value), one.source) for name, one in sorted(found.items())]


def _shown(name: str, value: Any) -> str:
    if name == "url":
        from mita.settings import hidden_password

        return hidden_password(value)
    return ", ".join(value) if isinstance(value, list) else str(value)
