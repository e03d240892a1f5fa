"""Django's tasks on Mita: results and signals in every ending, priorities."""

import time
from datetime import timedelta
from typing import Any

from django.tasks import TaskResultStatus, task_backends
from django.tasks.base import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, TaskResult
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.test import SimpleTestCase, TransactionTestCase
from django.utils import timezone

from mita import Retry
from mita.contrib.django import app
from mita.contrib.django.errors import TaskCancelled, TaskTimedOut
from mita.contrib.django.handlers import RUNS

from . import django_tasks as tasks
from .models import Order
from .receivers import SENT
from .work import run_jobs, while_running

FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


def _sent(result: TaskResult) -> list[str]:
    """The signals of a task, in their order."""
    return [kind for kind, told in SENT if told.id == result.id]


def _finished(result: TaskResult) -> TaskResult:
    """The result that `task_finished` was sent with."""
    [found] = [told for kind, told in SENT if kind == "finished" and told.id == result.id]
    return found


class Endings(SimpleTestCase):
    """Each ending: the result, and which signals were sent."""

    def setUp(self) -> None:
        SENT.clear()

    def tearDown(self) -> None:
        self.assertEqual(RUNS, {}, "nothing is remembered of runs that have ended")

    def _told_as_stored(self, result: TaskResult) -> None:
        told = _finished(result)
        result.refresh()
        for name in ("status", "errors", "_return_value", "worker_ids", "attempts", "args"):
            self.assertEqual(getattr(told, name), getattr(result, name), name)
        self.assertAlmostEqual(told.finished_at, result.finished_at, delta=timedelta(seconds=1))

    def test_success(self) -> None:
        result = tasks.add.enqueue(1, b=2)
        self.assertEqual((result.status, result.attempts), (TaskResultStatus.READY, 0))
        run_jobs()
        self.assertEqual(_sent(result), ["enqueued", "started", "finished"])
        self._told_as_stored(result)
        self.assertEqual((result.status, result.return_value), (SUCCESSFUL, 3))
        self.assertLessEqual(result.started_at, result.finished_at)
        self.assertEqual((result.args, result.kwargs), ([1], {"b": 2}))
        self.assertEqual(result, tasks.add.get_result(result.id))

    def test_failure_with_every_attempt_and_its_cause(self) -> None:
        result = tasks.fail.enqueue("out of stock")
        run_jobs()
        self.assertEqual(_sent(result), ["enqueued", "started", "started", "finished"])
        self._told_as_stored(result)
        self.assertEqual((result.status, result.attempts), (FAILED, 2))
        self.assertEqual([one.exception_class for one in result.errors], [LookupError] * 2)
        text = result.errors[1].traceback
        self.assertTrue(text.startswith("Traceback (most recent call last):\n"), text)
        self.assertTrue(text.endswith("LookupError: out of stock\n"), text)
        self.assertIn("ValueError: invalid literal for int()", text)
        self.assertIn("django_tasks.py", text)
        self.assertNotIn("contrib/django/handlers", text)
        self.assertLess(result.started_at, result.last_attempted_at)

    def test_success_after_a_retry(self) -> None:
        result = tasks.fail_once.enqueue()
        run_jobs()
        self.assertEqual(_sent(result), ["enqueued", "started", "started", "finished"])
        self._told_as_stored(result)
        self.assertEqual((result.status, result.return_value), (SUCCESSFUL, 2))
        self.assertEqual([one.exception_class for one in result.errors], [LookupError])

    def test_a_reschedule_is_no_end(self) -> None:
        result = tasks.later_once.enqueue()
        run_jobs()
        self.assertEqual(_sent(result), ["enqueued", "started", "started", "finished"])
        self._told_as_stored(result)
        self.assertEqual((result.return_value, result.errors), ("later", []))

    def test_an_error_that_is_not_retried(self) -> None:
        result = tasks.give_up.enqueue()
        run_jobs()
        self.assertEqual(_sent(result), ["enqueued", "started", "finished"])
        self.assertEqual(_finished(result).errors[0].exception_class_path, "mita.Abort")
        self.assertEqual(_finished(result).errors[0].exception_class.__name__, "Abort")

    def test_a_value_that_is_no_json(self) -> None:
        result = tasks.odd_value.using(backend="few").enqueue()
        run_jobs()
        self.assertEqual(_finished(result).errors[0].exception_class, TypeError)

    def test_time_out(self) -> None:
        once = {"timeout": 0.05, "retry": Retry(max_retries=0)}
        result = tasks.hang.using(mita=once).enqueue()
        run_jobs()
        self.assertEqual(_sent(result), ["enqueued", "started", "finished"])
        self._told_as_stored(result)
        self.assertEqual([one.exception_class for one in result.errors], [TaskTimedOut])

    def test_cancel_while_it_runs(self) -> None:
        result = tasks.hang.enqueue()

        def cancel() -> None:
            while not any(kind == "started" for kind, _ in SENT):
                time.sleep(0.005)
            app.cancel_sync(result.id, "not needed")

        while_running(cancel, lease=0.5)
        self.assertEqual(_sent(result), ["enqueued", "started", "finished"])
        self._told_as_stored(result)
        self.assertEqual([one.exception_class for one in result.errors], [TaskCancelled])

    def test_cancel_before_it_runs(self) -> None:
        result = tasks.add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
        app.cancel_sync(result.id, "not needed")
        from mita.contrib.django.signals import flush

        flush()
        self.assertEqual(_sent(result), ["enqueued", "finished"])
        self._told_as_stored(result)
        self.assertEqual((result.status, result.attempts), (FAILED, 0))
        self.assertIn("not needed", result.errors[0].traceback)

    def test_a_receiver_that_fails_changes_nothing(self) -> None:
        from django.tasks.signals import task_finished, task_started

        def broken(**_: Any) -> None:
            raise RuntimeError("a receiver")

        for signal in (task_started, task_finished):
            signal.connect(broken)
            self.addCleanup(signal.disconnect, broken)
        with self.assertLogs("django.dispatch", level="ERROR"):
            result = tasks.add.enqueue(1)
            run_jobs()
        self.assertEqual(_finished(result).status, SUCCESSFUL)


class Choices(SimpleTestCase):
    """What `using` takes, and what is refused."""

    def tearDown(self) -> None:
        run_jobs()

    def test_the_result_has_the_task_as_it_was_enqueued(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        chosen = tasks.add.using(priority=-77, run_after=later, queue_name="slow", backend="few")
        result = chosen.enqueue(1)
        self.assertEqual(task_backends["few"].get_result(result.id).task, chosen)
        record = app.get_sync(result.id)
        assert record is not None
        self.assertEqual((record.queue, record.state), ("slow", "scheduled"))

    def test_a_unique_key_returns_the_earlier_result(self) -> None:
        daily = tasks.add.using(mita={"unique": "daily"})
        first, second = daily.enqueue(1), daily.enqueue(2)
        self.assertEqual((first.id, second.args), (second.id, [1]))

    def test_wrong_options_are_refused(self) -> None:
        for wrong, says in (
            ({"tiemout": 3}, "did you mean 'timeout'?"),
            ({"timeout": -1}, "give more than 0 seconds"),
        ):
            with self.assertRaisesMessage(Exception, says):
                tasks.add.using(mita=wrong).enqueue(1)
        with self.assertRaisesMessage(InvalidTask, "priority must be a whole number"):
            tasks.add.using(priority=101)
        with self.assertRaisesMessage(TypeError, "Unsupported type"):
            tasks.add.enqueue(object())

    def test_a_job_of_another_task_has_no_result(self) -> None:
        from .tasks import pay

        for id in ("nothing", 7, pay.enqueue_sync(1).id):
            with self.assertRaises(TaskResultDoesNotExist):
                task_backends["default"].get_result(id)


class Priorities(SimpleTestCase):
    """A task has the same priority in Mita as in Django."""

    def test_every_priority_is_kept(self) -> None:
        for priority in (TASK_MIN_PRIORITY, -77, 0, 5, TASK_MAX_PRIORITY):
            record = app.get_sync(tasks.note.using(priority=priority).enqueue(priority).id)
            assert record is not None
            self.assertEqual(record.priority, priority)
        run_jobs()

    def test_ready_tasks_start_in_the_order_of_their_priorities(self) -> None:
        levels = (-100, -3, -2, -1, 0, 2, 3, 9, 10, 99, 100)
        tasks.ORDER.clear()
        for level in (*levels[::2], *levels[1::2]):
            tasks.note.using(priority=level).enqueue(level)
        run_jobs(concurrency=1, threads=1)
        self.assertEqual(tasks.ORDER, sorted(levels, reverse=True))


class Data(TransactionTestCase):
    """Async tasks use the ORM."""

    def test_an_async_task_changes_the_data(self) -> None:
        order = Order.objects.create(name="tea")
        result = tasks.pay.enqueue(order.pk)
        run_jobs()
        result.refresh()
        self.assertEqual(result.return_value, 1)
        order.refresh_from_db()
        self.assertTrue(order.paid)
