"""The table of all pages and acts. Tests of the security of the dashboard are made from it."""

from msgspec import Struct

from . import live, login
from .pages import (
    audit,
    bulk,
    dead,
    flow,
    flows,
    job,
    jobs,
    keys,
    overview,
    queues,
    repeat,
    repeats,
    static,
    workers,
)
from .roles import Role
from .visit import Handler


class Route(Struct, frozen=True):
    """One address: a page (GET, which changes nothing) or an act (POST). `role` is what a visitor
    needs; None: everybody may, even without a token."""

    method: str
    path: str
    handler: Handler
    role: Role | None = Role.READ


ROUTES = (
    Route("GET", "/static/{name}", static.asset, None),
    Route("GET", "/login", login.form, None),
    Route("POST", "/login", login.enter, None),
    Route("GET", "/live", live.stream),
    Route("GET", "/", overview.show),
    Route("GET", "/jobs", jobs.show),
    Route("POST", "/jobs/act", jobs.act, Role.OPERATE),
    Route("GET", "/jobs/{id}", job.show),
    Route("POST", "/jobs/{id}/act", job.act, Role.OPERATE),
    Route("GET", "/queues", queues.show),
    Route("POST", "/queues/act", queues.act, Role.OPERATE),
    Route("GET", "/dead", dead.show),
    Route("GET", "/bulk", bulk.show),
    Route("POST", "/bulk", bulk.start, Role.ADMIN),
    Route("GET", "/bulk/new", bulk.prepare, Role.ADMIN),
    Route("GET", "/bulk/{id}", bulk.show_one),
    Route("POST", "/bulk/{id}/act", bulk.act, Role.ADMIN),
    Route("GET", "/keys", keys.show),
    Route("POST", "/keys/act", keys.act, Role.OPERATE),
    Route("GET", "/flows", flows.show),
    Route("GET", "/flows/{id}", flow.show),
    Route("POST", "/flows/{id}/act", flow.act, Role.OPERATE),
    Route("GET", "/repeats", repeats.show),
    Route("POST", "/repeats/act", repeat.act, Role.OPERATE),
    Route("GET", "/repeats/{key:path}", repeat.show),
    Route("GET", "/workers", workers.show),
    Route("GET", "/audit", audit.show),
)
