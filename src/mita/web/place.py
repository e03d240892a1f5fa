"""Where a request is: the path at which the dashboard is mounted, and the path below it. Pure.

An outer app (or `BelowPrefix`) says in `root_path` where it has mounted the dashboard. Most leave
`path` as the browser sent it; some take the root away from it. Both are understood."""

from collections.abc import Mapping
from typing import Any


def root_of(scope: Mapping[str, Any]) -> str:
    """Return the path at which the dashboard is mounted, without a slash at its end; empty for
    the root."""
    return str(scope.get("root_path", "")).rstrip("/")


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path below the root, as the routes have it."""
    root, path = root_of(scope), str(scope["path"])
    return (path[len(root) :] if is_below(path, root) else path) or "/"


def is_below(path: str, root: str) -> bool:
    """Whether a path is the root itself, or below it."""
    return path == root or path.startswith(f"{root}/")
