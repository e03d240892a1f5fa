"""Tests of the shop: they run its tasks on their own connection, and roll everything back."""

import tempfile
from pathlib import Path

from django.core import mail
from django.test import TestCase, override_settings

from mita.contrib.django.testing import mita_lab

from .models import Order, Report
from .tasks import nightly_report


class ShopTests(TestCase):
    """Placing an order."""

    def setUp(self) -> None:
        """Nothing of a test is left: no file, no job, no order."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(override_settings(MEDIA_ROOT=Path(folder)))
        self.lab = self.enterContext(mita_lab())

    def test_an_order_is_invoiced_and_mailed(self) -> None:
        """One request, two tasks."""
        order = {"customer": "ada@example.com", "item": "tea", "cents": "450"}
        answer = self.client.post("/orders/", order).json()
        self.assertEqual(len(mail.outbox), 0)
        self.assertEqual(self.lab.drain(), 2)
        self.assertEqual([one.to for one in mail.outbox], [["ada@example.com"]])
        self.assertTrue(Order.objects.get(pk=answer["order"]).mailed)
        task = self.client.get(f"/tasks/{answer['task']}/").json()
        self.assertEqual(task, {"status": "SUCCESSFUL", "attempts": 1})

    def test_an_order_that_is_wrong_sends_nothing(self) -> None:
        """The task is rolled back with the order."""
        with self.assertRaises(ValueError):
            self.client.post("/orders/", {"customer": "ada", "item": "tea", "cents": "much"})
        self.assertEqual((Order.objects.count(), self.lab.drain()), (0, 0))

    def test_the_report_is_made_every_night(self) -> None:
        """Three days are one call."""
        Order.objects.create(customer="ada@example.com", item="tea", cents=450)
        self.lab.advance(3 * 86_400)
        self.assertEqual([report.cents for report in Report.objects.all()], [450, 450, 450])
        self.assertEqual(nightly_report(), 450)
