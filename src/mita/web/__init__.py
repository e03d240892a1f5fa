"""The dashboard: pages that show queues, jobs and workers, and change them.

    from mita.web import dashboard

    api.mount("/jobs", dashboard(app))

`mita web` serves it alone. It needs the extra `web`: pip install 'mita[web]'.

How it is built: `routes` is the table of all pages and acts, with the role that each needs.
`guard` checks every request before any of them. A page is an async function that takes a `Visit`
and returns `visit.render("name.html", …)`. An act is one that reads `await visit.form()`, changes
something, and returns `visit.done("what was done")`. Pages have parts with `data-live`: the
browser replaces them when something happens."""

from mita.errors import UsageError

try:
    import jinja2 as jinja2
    import starlette as starlette
except ModuleNotFoundError as missing:
    raise UsageError(
        f"the dashboard needs a package that is not installed ({missing.name}): pip install "
        "'mita[web]'"
    ) from missing

from .roles import Role
from .site import dashboard

__all__ = ["Role", "dashboard"]
