"""Connections are checked before each run and closed after it, on threads and in async code."""

from sqlite3 import ProgrammingError
from typing import Any
from unittest import skipUnless

from django.db import connection
from django.test import TransactionTestCase

from mita import Retry

from .models import Order
from .tasks import USED, pay, pay_async
from .work import run_jobs, while_running


class Connections(TransactionTestCase):
    """`pay` runs on a thread, `pay_async` on the event loop."""

    def setUp(self) -> None:
        USED.clear()

    def test_jobs_change_the_data_of_the_project(self) -> None:
        orders = [Order.objects.create(name="tea"), Order.objects.create(name="ink")]
        jobs = [pay.enqueue_sync(orders[0].pk), pay_async.enqueue_sync(orders[1].pk)]
        run_jobs()
        self.assertEqual([job.result_sync(timeout=10) for job in jobs], [1, 1])
        self.assertEqual(Order.objects.filter(paid=True).count(), 2)

    @skipUnless(connection.vendor == "sqlite", "CONN_MAX_AGE is 0 there")
    def test_a_connection_is_closed_after_the_run(self) -> None:
        order = Order.objects.create(name="tea")
        for task in (pay, pay, pay_async, pay_async):
            task.enqueue_sync(order.pk)
        run_jobs(threads=1)
        self.assertEqual(len(USED), 4)
        for used in USED:
            with self.assertRaisesMessage(ProgrammingError, "closed database"):
                used.execute("select 1")

    @skipUnless(connection.vendor == "postgresql", "the server ends a connection")
    def test_a_connection_that_the_server_has_ended_is_replaced_before_the_run(self) -> None:
        order = Order.objects.create(name="tea")
        for task in (pay, pay_async):
            USED.clear()
            once = task.options(retry=Retry(max_retries=0))
            first = once.enqueue_sync(order.pk)
            second = once.after(1).enqueue_sync(order.pk)

            def end_its_connection(first: Any = first, second: Any = second) -> None:
                first.result_sync(timeout=10)
                with connection.cursor() as cursor:
                    cursor.execute("select pg_terminate_backend(%s)", [USED[0].info.backend_pid])
                self.assertEqual(second.result_sync(timeout=10), 1)

            while_running(end_its_connection, max_jobs=2, threads=1)
            self.assertIsNot(USED[0], USED[1])
