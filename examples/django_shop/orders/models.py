"""Orders, and the reports about them."""

from django.db import models


class Order(models.Model):
    """An order of a customer. `invoice` is the name of its file."""

    customer = models.EmailField()
    item = models.CharField(max_length=100)
    cents = models.PositiveIntegerField()
    placed = models.DateTimeField(auto_now_add=True)
    invoice = models.CharField(max_length=100, blank=True)
    mailed = models.BooleanField(default=False)


class Report(models.Model):
    """How much was sold until a night."""

    made = models.DateTimeField(auto_now_add=True)
    orders = models.PositiveIntegerField()
    cents = models.PositiveIntegerField()
