"""From `module:app` to an app."""

import importlib
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from mita import Mita
from mita.errors import MitaError, UsageError


def load(target: str) -> Mita:
    """Import the app `module:app`; `:app` may be left out. The current directory is searched first.
    Raises `UsageError` if there is none."""
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    name, _, attribute = target.partition(":")
    module = _module(name, target)
    return _app(module, attribute or "app", target)


def _module(name: str, target: str) -> ModuleType:
    if name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"cannot import {target!r}: {_wrong_name(name)}")
    if not _is_there(name):
        raise UsageError(
            f"cannot import {target!r}: there is no module {name!r} in {Path.cwd()} or in this "
            "Python environment; go to the folder that holds it, or install its package"
        )
    try:
        return importlib.import_module(name)
    except MitaError as error:
        raise UsageError(f"cannot import {target!r}: {_where(error)}{error}") from error
    except (Exception, SystemExit) as error:
        reason = f"{_where(error)}{type(error).__name__}: {error}"
        raise UsageError(
            f"cannot import {target!r}: its own code failed: {reason}; fix it, then try again"
        ) from error


def _is_there(name: str) -> bool:
    """Whether the module exists. It imports only the packages around it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
    except Exception:  # noqa: BLE001
        # a package that fails to import is there, and its import will say why
        return True


def _wrong_name(name: str) -> str:
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        return f"give the module's name, not its file: {dotted}:app"
    return f"{name!r} is not the name of a module: write module:app, for example jobs:app"


def _where(error: BaseException) -> str:
    """The line of user code that raised the error."""
    ours = str(Path(__file__).parents[1])
    frames = [
        snapshot
        for snapshot in traceback.extract_tb(error.__traceback__)
        if not snapshot.filename.startswith(("<", ours))
    ]
    frames = [
        snapshot
        for snapshot in frames
        if not snapshot.filename.startswith(str(Path(importlib.__file__).parent))
    ]
    return f"{frames[-1].filename}, line {frames[-1].lineno}: " if frames else ""


def _app(module: ModuleType, attribute: str, target: str) -> Mita:
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Mita):
        return found
    apps = [
        f"{module.__name__}:{name}"
        for name, value in vars(module).items()
        if isinstance(value, Mita)
    ]
    remedy = f"did you mean {' or '.join(apps)}?" if apps else "make one there: app = Mita(…)"
    what = (
        f"module {module.__name__!r} has no {attribute!r}"
        if found is None
        else f"it is a {type(found).__name__}, not a Mita app"
    )
    raise UsageError(f"cannot use {target!r}: {what}; {remedy}")
