"""Enqueue inside `atomic()`: with the data, or not at all."""

from django.db import connection, transaction
from django.test import TransactionTestCase

from mita.contrib.django import app

from . import django_tasks as tasks
from .models import Order
from .receivers import SENT
from .work import run_jobs


class Undo(Exception):
    """Rolls a transaction back."""


class Transactions(TransactionTestCase):
    """On PostgreSQL the jobs are part of the transaction. Elsewhere they are enqueued after it."""

    def setUp(self) -> None:
        SENT.clear()

    def _jobs(self) -> set[str]:
        return {job.id for job in app.jobs_sync(limit=500).jobs}

    def test_a_commit_stores_the_job_under_the_id_of_its_result(self) -> None:
        before = self._jobs()
        with transaction.atomic():
            Order.objects.create(name="tea")
            result = tasks.add.enqueue(1)
            self.assertEqual(SENT, [], "no signal of a task that may be rolled back")
            self.assertEqual(self._jobs(), before, "nobody sees it before the commit")
        self.assertEqual(self._jobs() - before, {result.id})
        self.assertEqual([kind for kind, _ in SENT], ["enqueued"])
        run_jobs()
        result.refresh()
        self.assertEqual(result.return_value, 2)

    def test_a_rollback_takes_the_job_with_it(self) -> None:
        before = self._jobs()
        with self.assertRaises(Undo), transaction.atomic():
            tasks.add.enqueue(1)
            raise Undo
        self.assertEqual(self._jobs(), before)
        self.assertEqual(SENT, [])

    def test_a_savepoint_takes_only_its_own_jobs_with_it(self) -> None:
        before = self._jobs()
        with transaction.atomic():
            kept = tasks.add.enqueue(1)
            with self.assertRaises(Undo), transaction.atomic():
                tasks.add.enqueue(2)
                raise Undo
        self.assertEqual(self._jobs() - before, {kept.id})

    def test_the_job_is_written_by_the_transaction_itself_on_postgresql(self) -> None:
        with transaction.atomic():
            tasks.add.enqueue(1)
            waiting = [function.__qualname__ for _, function, *_ in connection.run_on_commit]
        after_the_commit = any("_after_commit" in name for name in waiting)
        self.assertEqual(after_the_commit, connection.vendor != "postgresql")
