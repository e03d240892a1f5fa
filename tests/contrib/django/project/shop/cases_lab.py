"""Tests of a project with `mita_lab`: handlers run on the thread and the connection of the test."""

from unittest import skipUnless
from unittest.mock import patch

import django
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from mita.contrib.django import conf as project
from mita.contrib.django.testing import mita_lab
from mita.errors import UsageError
from mita.testing import lab

from .models import Order
from .receivers import SENT
from .tasks import USED, pay, pay_async

HAS_TASKS = django.VERSION >= (6, 0)


class Lab(TestCase):
    """Nothing of this is committed."""

    def setUp(self) -> None:
        USED.clear()
        SENT.clear()
        self.lab = self.enterContext(mita_lab())
        self.order = Order.objects.create(name="tea")

    def test_handlers_use_the_connection_of_the_test(self) -> None:
        for task in (pay, pay_async):
            Order.objects.update(paid=False)
            job = task.enqueue_sync(self.order.pk)
            self.assertEqual(self.lab.drain(), 1)
            self.assertEqual(job.result_sync(timeout=1), 1)
            self.order.refresh_from_db()
            self.assertTrue(self.order.paid)
        self.assertEqual(USED, [connection.connection] * 2)

    def test_the_clock_moves(self) -> None:
        pay.after(60).enqueue_sync(self.order.pk)
        self.assertEqual([self.lab.drain(), self.lab.advance(60)], [0, 1])

    async def test_async_tests(self) -> None:
        for task in (pay, pay_async):
            await task.enqueue(self.order.pk)
            self.assertEqual(await self.lab.adrain(), 1)
        await self.order.arefresh_from_db()
        self.assertTrue(self.order.paid)

    def test_nothing_is_left_of_the_test_before(self) -> None:
        self.assertEqual(Order.objects.count(), 1)
        self.assertEqual(self.lab.lab.enqueued(), [])

    @skipUnless(HAS_TASKS, "Django 6")
    def test_tasks_of_django_run_with_their_signals(self) -> None:
        from . import django_tasks as tasks

        with transaction.atomic():
            result = tasks.pay.enqueue(self.order.pk)
            with self.assertRaisesMessage(UsageError, "leave the atomic() block"):
                self.lab.drain()
        self.assertEqual(self.lab.drain(), 1)
        self.assertEqual([kind for kind, _ in SENT], ["enqueued", "started", "finished"])
        result.refresh()
        self.assertEqual(result.return_value, 1)
        self.assertEqual([one.id for one in self.lab.results(tasks.pay)], [result.id])

    @skipUnless(HAS_TASKS, "Django 6")
    def test_a_task_of_a_rolled_back_block_does_not_run(self) -> None:
        from . import django_tasks as tasks

        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            tasks.add.enqueue(1)
            _ = 1 / 0
        self.assertEqual(self.lab.drain(), 0)

    @skipUnless(HAS_TASKS, "Django 6")
    def test_the_error_of_a_handler_is_raised(self) -> None:
        from . import django_tasks as tasks

        tasks.fail.enqueue("out of stock")
        with self.assertRaisesMessage(LookupError, "out of stock"):
            self.lab.drain()
        self.assertEqual(self.lab.advance(60, raises=False), 1)
        self.assertEqual([kind for kind, _ in SENT][-1], "finished")


class WithoutLab(TransactionTestCase):
    """A test that forgets the lab, in a project whose settings name no store."""

    def setUp(self) -> None:
        with override_settings(MITA={}):
            self.app = project._make(project.project_settings())
        self.addCleanup(setattr, project, "_derived", None)
        self.addCleanup(self.app.close_sync)

    def test_the_store_of_production_is_not_opened(self) -> None:
        @self.app.task
        def greet() -> None: ...

        with self.assertRaisesMessage(ImproperlyConfigured, "with mita_lab() as lab"):
            greet.enqueue_sync()
        with lab(self.app) as it:
            greet.enqueue_sync()
            self.assertEqual(it.drain_sync(), 1)
        with self.assertRaisesMessage(ImproperlyConfigured, "with mita_lab() as lab"):
            greet.enqueue_sync()

    @skipUnless(HAS_TASKS, "Django 6")
    def test_a_task_of_django_is_refused_before_the_commit(self) -> None:
        from . import django_tasks as tasks

        with (
            patch.object(project, "_made", self.app),
            transaction.atomic(),
            self.assertRaisesMessage(ImproperlyConfigured, "with mita_lab() as lab"),
        ):
            tasks.add.enqueue(1)
