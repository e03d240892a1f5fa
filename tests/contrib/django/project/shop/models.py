"""An order, which jobs pay."""

from django.db import models


class Order(models.Model):
    """An order."""

    name = models.CharField(max_length=50)
    paid = models.BooleanField(default=False)
