"""A program with Django, PostgreSQL and SQLite: jobs in `atomic()`, sync and async. It is a process
of its own, because a process has the settings of one Django project only."""

import asyncio
import json
import sys
from typing import Any

import django
from django.conf import settings


def configure(host: str, port: str, file: str) -> None:
    on_postgres = {"NAME": "postgres", "USER": "postgres", "HOST": host, "PORT": port}
    settings.configure(
        USE_TZ=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "OPTIONS": {"application_name": "shop", "isolation_level": 2},
                **on_postgres,
            },
            "local": {"ENGINE": "django.db.backends.sqlite3", "NAME": file},
        },
    )
    django.setup()


def main(alias: str) -> dict[str, Any]:
    """Write three jobs, of which one is rolled back; return what was said and sent."""
    from django.db import connections, transaction
    from django.utils.connection import ConnectionProxy

    from mita import Mita, UsageError
    from mita.contrib.outbox import Outbox

    app = Mita("memory://", outbox=Outbox(django=alias, name="django", poll=0.01))

    @app.task(name="mail")
    async def mail(number: int) -> int:
        return number

    asyncio.run(app.outbox.create())
    connection, said = ConnectionProxy(connections, alias), ""  # as `django.db.connection`
    try:
        mail.using(connection).enqueue_sync(0)
    except UsageError as error:
        said = str(error)
    with transaction.atomic(using=alias):
        first = mail.using(connection).enqueue_sync(1)
    try:
        with transaction.atomic(using=alias):
            mail.using(connection).enqueue_sync(2)
            raise ZeroDivisionError
    except ZeroDivisionError:
        connection.close()

    async def run() -> list[int]:
        from asgiref.sync import sync_to_async

        await sync_to_async(transaction.set_autocommit)(False, using=alias)
        last = await mail.using(connection).enqueue(3)
        await sync_to_async(transaction.commit)(using=alias)
        await sync_to_async(connections.close_all)()
        await app.worker(until_empty=True).run()
        jobs = (await app.jobs()).jobs
        assert len(jobs) == 2
        return [await job.result(timeout=0) for job in (first, last)]

    return {"said": said, "results": asyncio.run(run())}


if __name__ == "__main__":
    configure(*sys.argv[1:])
    print(json.dumps({alias: main(alias) for alias in ("default", "local")}))
