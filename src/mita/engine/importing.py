"""The names under which a new process can import an app and the modules of its tasks."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from mita.errors import UsageError
from mita.settings import StoreURL, WorkerSettings
from mita.tasks import Task

from .processes import ProcessPlan, usable_processors
from .remote import is_inside

REMEDY = (
    "put the app into a module of its own, for example jobs.py, and start `mita worker jobs:app`"
)


def plan_processes(
    app: object, tasks: Mapping[str, Task[Any, Any]], settings: WorkerSettings, source: object
) -> ProcessPlan | None:
    """Returns the plan of a worker's handler processes; None if no task needs them. Raises
    UsageError if a handler process could not import the app. The processes open the store by its
    URL, if `source` is one; another source is of no use in another process."""
    if is_inside():
        raise UsageError(
            "a worker was started while a handler process imported this module: start it under "
            "`if __name__ == '__main__':`, so that only the program itself does"
        )
    functions = [task.fn for task in tasks.values() if task.executor == "process"]
    if not functions:
        return None
    if not hasattr(os, "fork"):
        raise UsageError(
            "tasks with executor='process' need Linux or macOS: leave executor= out, and the "
            "handler runs on a thread"
        )
    modules = {
        _importable_name(name) for fn in functions if (name := getattr(fn, "__module__", None))
    }
    url = source if isinstance(source, StoreURL) else None
    return ProcessPlan(
        target=settings.target or _target(app),
        modules=tuple(sorted(modules)),
        url="" if url is None else url.text,
        namespace="" if url is None else url.namespace,
        size=settings.handler_processes or usable_processors(),
    )


def _target(app: object) -> str:
    """Prefers a module to the script that was started: only a module can always be imported."""
    modules = sorted(sys.modules.items(), key=lambda named: named[0] == "__main__")
    for name, module in modules:
        if isinstance(module, ModuleType) and name != "__mp_main__":
            for attribute, value in list(vars(module).items()):
                if value is app:
                    return f"{_importable_name(name)}:{attribute}"
    raise UsageError(
        "tasks with executor='process' need an app that a new process can import, and no module "
        f"has this one as a variable: {REMEDY}, or name it with app.worker(target='module:app')"
    )


def _importable_name(name: str) -> str:
    """The name of the module, or the name under which a script can be imported."""
    return name if name != "__main__" else _script_name(sys.modules["__main__"])


def _script_name(main: ModuleType) -> str:
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    if file is not None and _finds(Path(file).stem, file):
        return Path(file).stem
    where = f"the script {file}" if file is not None else "an interactive session"
    raise UsageError(
        f"tasks with executor='process' are imported by a new process, and {where} cannot be "
        f"imported there: {REMEDY}"
    )


def _finds(name: str, file: str) -> bool:
    """Whether this name imports that file."""
    try:
        found = find_spec(name) if name.isidentifier() else None
    except (ImportError, ValueError):
        return False
    return (
        found is not None
        and found.origin is not None
        and Path(found.origin).resolve() == Path(file).resolve()
    )
