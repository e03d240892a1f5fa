"""Placing an order, and asking what became of it."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .models import Order
from .tasks import make_invoice


@csrf_exempt
@require_POST
def place(request: HttpRequest) -> Any:
    """Place an order: the order and its invoice task are committed together."""
    with transaction.atomic():
        order = Order.objects.create(
            customer=request.POST["customer"],
            item=request.POST["item"],
            cents=int(request.POST["cents"]),
        )
        task = make_invoice.enqueue(order.pk)
    return JsonResponse({"order": order.pk, "task": task.id}, status=201)


def show(_: HttpRequest, order_id: int) -> Any:
    """Show an order."""
    order = Order.objects.get(pk=order_id)
    return JsonResponse({"item": order.item, "invoice": order.invoice, "mailed": order.mailed})


def show_task(_: HttpRequest, task_id: str) -> Any:
    """Show what became of a task."""
    result = make_invoice.get_result(task_id)
    return JsonResponse({"status": result.status, "attempts": result.attempts})
