"""The pages of bulk runs: what would be changed, start one, and how far each is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_args

from starlette.responses import Response

from mita.client.filters import FILTERS
from mita.errors import UsageError
from mita.model.bulk import BulkPage, BulkVerb
from mita.model.record import BulkResult, JobPage
from mita.web.json_field import json_field
from mita.web.search import as_text
from mita.web.visit import MOST_PAGE_JOBS, Form, NotHere, Visit

from .jobs import chosen_filters

_PAGE_BULKS = 50
_SAMPLE_JOBS = 5
_VERBS = get_args(BulkVerb)
_LABELS = {
    "retry": "Retry",
    "cancel": "Cancel",
    "delete": "Delete",
    "reschedule": "Reschedule",
    "amend": "Change arguments of",
}


async def show(visit: Visit) -> Response:
    """Show the bulk runs, newest first."""
    after, limit = visit.query("after"), visit.number("limit", _PAGE_BULKS, MOST_PAGE_JOBS)

    async def read() -> BulkPage:
        return await visit.app.bulks(after=after, limit=limit)

    page = await visit.site.aged.get(("bulks", after, limit), read)
    return visit.render(
        "bulks.html",
        page=page.value or BulkPage(()),
        is_searching=page.value is None,
        as_text=as_text,
        labels=_LABELS,
    )


async def show_one(visit: Visit) -> Response:
    """Show one bulk run."""
    bulk = await visit.app.bulk(visit.part("id"))
    if bulk is None:
        raise NotHere("There is no such bulk run: it never was, or it ended and was deleted.")
    return visit.render("bulk.html", bulk=bulk, search=as_text(bulk.filters), labels=_LABELS)


async def prepare(visit: Visit) -> Response:
    """Show what a bulk run would change, and the form that starts it. Nothing is changed."""
    verb, filters = _verb(visit.query("verb") or "retry"), chosen_filters(visit)

    async def read() -> JobPage:
        return await visit.app.jobs(**filters, limit=_SAMPLE_JOBS)

    aged = visit.site.aged
    count, sample = await asyncio.gather(
        aged.get(("dry run", verb, *filters.items()), _dry_run(visit, verb, filters), fresh_s=5.0),
        aged.get(("sample", *filters.items()), read),
    )
    return visit.render(
        "bulk_new.html",
        verb=verb,
        filters=filters,
        search=as_text(filters),
        count=count,
        sample=sample.value.jobs if sample.value else (),
        labels=_LABELS,
        verbs=_VERBS,
    )


def _dry_run(
    visit: Visit, verb: str, filters: dict[str, str]
) -> Callable[[], Awaitable[BulkResult]]:
    app = visit.app
    given: dict[str, Any] = {"all": True, "dry_run": True, **filters}

    async def read() -> BulkResult:
        match verb:
            case "cancel":
                return await app.cancel_many(**given)
            case "delete":
                return await app.delete_many(**given)
            case "reschedule":
                return await app.reschedule_many(after=0, **given)
        return await app.retry_many(**given)

    return read


async def start(visit: Visit) -> Response:
    """Start a bulk run."""
    sent = await visit.form()
    verb = _verb(sent.get("verb"))
    filters: dict[str, Any] = {name: sent.get(name) for name in FILTERS if sent.get(name)}
    with visit.acting(sent.get("reason")):
        record = await visit.app.start_bulk(
            verb,
            rate=_number(sent, "rate"),
            arguments=json_field(sent, "arguments"),
            after=(_number(sent, "after") or 0.0) if verb == "reschedule" else None,
            reason=sent.get("reason"),
            all=not filters,
            **filters,
        )
    await visit.site.serve_bulk_runs()
    return visit.done("The bulk run has started.", visit.url(f"/bulk/{record.id}"))


async def act(visit: Visit) -> Response:
    """Stop a bulk run, or let it go on."""
    sent, id = await visit.form(), visit.part("id")
    with visit.acting(sent.get("reason")):
        if sent.get("act") == "stop":
            await visit.app.cancel(id, sent.get("reason"))
            return visit.done("The bulk run stops. What it has changed stays changed.")
        if sent.get("act") == "retry":
            await visit.app.retry(id)
            await visit.site.serve_bulk_runs()
            return visit.done("The bulk run goes on.")
    raise UsageError(f"act={sent.get('act')!r}: use stop or retry")


def _verb(given: str) -> BulkVerb:
    for verb in _VERBS:
        if given == verb:
            return given  # type: ignore[return-value]
    raise UsageError(f"verb={given!r}: use one of {', '.join(_VERBS)}")


def _number(form: Form, name: str) -> float | None:
    given = form.get(name)
    if not given:
        return None
    try:
        return float(given)
    except ValueError:
        raise UsageError(f"{name}={given!r}: give a number, for example 50") from None
