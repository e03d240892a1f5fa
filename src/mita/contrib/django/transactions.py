"""Enqueue inside `atomic()`: the job exists if the transaction commits, and only then."""

import logging
import sys
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from mita import Mita
from mita.errors import UsageError
from mita.ports.ids import new_id
from mita.tasks import Call
from mita.tasks.new_job import job_of_call

log = logging.getLogger("mita.django")

cannot_join: set[str] = set()  # databases that have neither this project's jobs nor its outbox


class Sent:
    """A call that was enqueued, or will be when the transaction commits. `is_new` is False if an
    earlier job has its unique key; then `id` is that of the earlier job."""

    def __init__(self, id: str, is_new: bool) -> None:
        self.id, self.is_new = id, is_new


def send(app: Mita, call: Call[Any], database: str | None) -> Sent:
    """Enqueue a call, as part of the transaction that is open on this database; None: at once."""
    if database is None:
        handle = app.enqueue_sync(call)
        return Sent(handle.id, handle.created)
    connection = connections[database]
    if may_join(app, connection.vendor) and database not in cannot_join:
        try:
            [handle] = app.within(connection).send_sync([call])
        except UsageError as error:
            cannot_join.add(database)
            log.warning(
                "until this process is restarted, jobs are enqueued after the commit, and not with "
                "it: %s. (`manage.py migrate` makes the table of an outbox)",
                error,
            )
        else:
            return Sent(handle.id, handle.created)
    return _after_commit(app, call, database)


def may_join(app: Mita, vendor: str) -> bool:
    """Whether jobs can be part of a transaction of such a database: the jobs are in PostgreSQL
    too, or the app has an outbox."""
    if app.store_factory is None and app.url.scheme == "memory":
        return False  # a lab, or a test
    is_postgres = app.store_factory is None and app.url.scheme in ("postgresql", "postgres")
    return app.has_outbox or (is_postgres and vendor == "postgresql")


def _after_commit(app: Mita, call: Call[Any], database: str) -> Sent:
    """Enqueue when the transaction has committed. If the process dies between the two, the job is
    lost: an outbox, or jobs in the same PostgreSQL database, cannot lose it."""
    job = job_of_call(new_id(), call, b"")

    def enqueue() -> None:
        app._run_sync(app._sender._store_jobs([job]))  # noqa: SLF001

    transaction.on_commit(enqueue, using=database)
    return Sent(job.id, True)


def refuse_in_tests() -> None:
    """Raise `ImproperlyConfigured` in a test: the store that was derived from `DATABASES` is the
    one of production, not that of the test database."""
    state = getattr(sys.modules.get("django.test.utils"), "_TestState", None)
    if hasattr(state, "saved_data"):
        raise ImproperlyConfigured(
            "this test would enqueue into the real store: use mita.contrib.django.testing "
            "(`with mita_lab() as lab:`), or name a store in the settings of your tests, "
            'MITA = {"URL": "memory://"}'
        )
