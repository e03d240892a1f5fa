"""Settings that a project has in `[tool.mita]` of its pyproject.toml, or in `$MITA_…`."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mita.errors import UsageError, did_you_mean

FILE = "pyproject.toml"
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Setting(NamedTuple):
    """The value of a setting, and where it comes from: `$MITA_URL`, or the path of a file.
    `folder` is that of the file; None for the environment."""

    value: Any
    source: str
    folder: Path | None = None


def read_duration(text: str) -> float:
    """Returns seconds: of a number, or of numbers with units, as in `90`, `1h30m`, `2d`. Raises
    `UsageError` for other text."""
    compact = text.replace(" ", "")
    if compact.startswith("-"):
        raise UsageError(f"{text!r} is negative: give 0 (now) or more")
    if re.fullmatch(r"\d+(\.\d+)?", compact):
        return float(compact)
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise UsageError(
            f"{text!r} is not a length of time: write seconds (90) or units (30s, 10m, 1h30m, 2d)"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


# ---------------------------------------------------------------- the kinds of values


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError("give a text")
    return value.strip()


def _names(value: Any) -> list[str]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise UsageError("give a list of names")
    return [one.strip() for one in listed]


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError("give a whole number")
    return value


def _duration(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if isinstance(value, str):
        return read_duration(value)
    raise UsageError("give seconds, or a text like '30s' or '2h'")


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in (*_YES, *_NO):
        return value.lower() in _YES
    raise UsageError("give true or false")


APP_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "keep": _duration,
    "keep_failed": _duration,
    "keep_most": _count,
    "payload_limit": _count,
    "ageing": _duration,
}
"""What `Mita.from_settings()` reads beside `url` and `namespace`."""

WORKER_SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "queues": _names,
    "exclude": _names,
    "concurrency": _count,
    "threads": _count,
    "handler_processes": _count,
    "processes": _count,
    "lease": _duration,
    "grace": _duration,
    "max_jobs": _count,
    "schedule": _switch,
    "name": _text,
    "metrics": _text,
    "health": _text,
    "verbose": _switch,
    "log_level": _text,
    "log_json": _switch,
}
"""What `mita worker` reads: its options."""

SETTINGS: Mapping[str, Callable[[Any], Any]] = {
    "app": _text,
    "url": _text,
    "namespace": _text,
    **APP_SETTINGS,
    **WORKER_SETTINGS,
}
"""All settings, each with the function that checks and reads its value."""


# ---------------------------------------------------------------- where they are


def settings(folder: Path | None = None) -> dict[str, Setting]:
    """Returns the settings of the environment and of the project around the folder (None: the
    current one). The environment wins. Raises `UsageError` for a key that is not known, and for a
    value that does not fit."""
    return of_project(folder) | of_environment()


def setting(name: str) -> Setting | None:
    """Returns one setting; None if there is none."""
    if (found := _of_variable(name)) is not None:
        return found
    return of_project().get(name)


def of_environment() -> dict[str, Setting]:
    """Returns the settings in `$MITA_APP`, `$MITA_URL`, `$MITA_QUEUES` and so on. An empty variable
    counts as not set."""
    found = {name: _of_variable(name) for name in SETTINGS}
    return {name: one for name, one in found.items() if one is not None}


def _of_variable(name: str) -> Setting | None:
    variable = f"MITA_{name.upper()}"
    text = os.environ.get(variable, "").strip()
    return Setting(_read(name, text, f"${variable}"), f"${variable}") if text else None


def of_project(folder: Path | None = None) -> dict[str, Setting]:
    """Returns the settings in `[tool.mita]` of the nearest pyproject.toml that has this table, from
    the folder upwards. A sqlite file is relative to that pyproject.toml."""
    try:
        start = Path.cwd() if folder is None else folder
    except FileNotFoundError:  # the current folder was deleted
        return {}
    for place in (start, *start.parents):
        if (table := _table(place / FILE)) is not None:
            return _checked(table, place / FILE)
    return {}


def _table(file: Path) -> dict[str, Any] | None:
    """The table of this file; None if it has none. A file that is no TOML is not ours to judge,
    unless it names the table."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if "tool.mita" not in text and "mita" not in text:
        return None
    try:
        tool = tomllib.loads(text).get("tool")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    table = tool.get("mita") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _checked(table: dict[str, Any], file: Path) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in SETTINGS:
            meant = did_you_mean(name, SETTINGS) or "."
            raise UsageError(
                f"{file}: [tool.mita] has no key {key!r}{meant} It takes {', '.join(SETTINGS)}"
            )
        found[name] = Setting(_read(name, value, f"{file}, {key}"), str(file), file.parent)
    return found


def _read(name: str, value: Any, where: str) -> Any:
    try:
        return SETTINGS[name](value)
    except UsageError as error:
        raise UsageError(f"{where} = {value!r}: {error}") from None
