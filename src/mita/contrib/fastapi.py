"""Mita in a FastAPI app.

    from mita.contrib.fastapi import MitaApp, lifespan

    web = FastAPI(lifespan=lifespan(app))

    @web.get("/jobs/{id}")
    async def state(id: str, app: MitaApp) -> str: ...

`fastapi.Depends` gives values to endpoints, `mita.Depends` to handlers. They are not the same."""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from mita.app import Mita
from mita.errors import UsageError
from mita.tasks import Task

try:
    from fastapi import Depends
except ModuleNotFoundError as missing:
    raise UsageError("FastAPI is not installed: pip install 'mita[fastapi]'") from missing

from .starlette import get_mita, lifespan

__all__ = ["MitaApp", "get_mita", "get_task", "lifespan"]

MitaApp: TypeAlias = Annotated[Mita, Depends(get_mita)]
"""A parameter of an endpoint: the Mita app that `lifespan` has opened."""


def get_task(name: str) -> Callable[[Mita], Task[Any, Any]]:
    """Return a dependency that gives the task of this name, for a module that cannot import it:
    `Annotated[Task[..., Any], Depends(get_task("shop.send"))]`. An unknown name raises `UsageError`
    in the request."""

    def task_of_app(app: MitaApp) -> Task[Any, Any]:
        return app.find_task(name)

    return task_of_app
