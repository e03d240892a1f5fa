"""Tasks of Django 6."""

import time
from typing import Any

from django.tasks import task

from mita import Abort, Reschedule

from .models import Order

ORDER: list[int] = []  # of the runs of `note`


@task
def add(a: int, b: int = 1) -> int:
    """Return a sum."""
    return a + b


@task
async def pay(order: int) -> int:
    """Pay an order."""
    return await Order.objects.filter(pk=order).aupdate(paid=True)


@task(takes_context=True)
def note(context: Any, number: int) -> int:
    """Note that it ran."""
    ORDER.append(number)
    return int(context.attempt)


@task
def fail(message: str = "no") -> None:
    """Fail, as often as it is run."""
    try:
        int("x")
    except ValueError as error:
        raise LookupError(message) from error


@task(takes_context=True)
def fail_once(context: Any) -> int:
    """Fail at the first attempt."""
    if context.attempt == 1:
        raise LookupError("not yet")
    return int(context.attempt)


@task(takes_context=True)
def later_once(context: Any) -> str:
    """Reschedule itself once; that is no failure."""
    if context.job.reschedules == 0:
        raise Reschedule(after=0)
    return "later"


@task
def give_up() -> None:
    """Fail for good."""
    raise Abort("for good")


@task
def odd_value() -> object:
    """Return what is no JSON."""
    return object()


@task(takes_context=True)
def hang(context: Any) -> None:
    """Run until it is told to stop."""
    while not context.job.cancelled:
        time.sleep(0.005)


@task
def stay() -> None:
    """Run for longer than any test."""
    time.sleep(600)
