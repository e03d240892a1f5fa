"""Tasks of Mita itself, which work with every Django. This module is found by its name."""

from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from mita.contrib.django import app

from .models import Order

USED: list[Any] = []  # connections of Django that handlers have used


@app.task
def greet(name: str) -> str:
    """Return a greeting; it needs no table."""
    return f"hello {name}"


@app.task
def pay(order: int) -> int:
    """Pay an order, on a thread of the worker."""
    changed = Order.objects.filter(pk=order).update(paid=True)
    USED.append(connection.connection)
    return changed


@app.task
async def pay_async(order: int) -> int:
    """Pay an order, on the event loop of the worker."""
    changed = await Order.objects.filter(pk=order).aupdate(paid=True)
    USED.append(await sync_to_async(lambda: connection.connection)())
    return changed
