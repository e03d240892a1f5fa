"""What the shop does in the background. The lines for Mita are marked."""

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.mail import send_mail
from django.db.models import Sum
from django.tasks import task

from mita import Cron  # mita
from mita.contrib.django import app  # mita

from .models import Order, Report


@task
def make_invoice(order_id: int) -> str:
    """Write the invoice of an order, then mail it. A second run writes the same."""
    order = Order.objects.get(pk=order_id)
    if not order.invoice:
        text = f"Invoice {order.pk}\n{order.item}: {order.cents / 100:.2f}\n"
        order.invoice = default_storage.save(f"invoice-{order.pk}.txt", ContentFile(text))
        order.save(update_fields=["invoice"])
    mail_invoice.enqueue(order_id)
    return order.invoice


@task(priority=10)
def mail_invoice(order_id: int) -> None:
    """Mail the invoice of an order to its customer."""
    order = Order.objects.get(pk=order_id)
    if not order.mailed:
        text = default_storage.open(order.invoice, "r").read()
        send_mail(f"Your order {order.pk}", text, "shop@example.com", [order.customer])
        Order.objects.filter(pk=order_id).update(mailed=True)


@app.repeats(Cron("0 2 * * *"))  # mita
@app.task  # mita
def nightly_report() -> int:
    """Note how much was sold until now."""
    sold = Order.objects.aggregate(cents=Sum("cents"))["cents"] or 0
    Report.objects.create(orders=Order.objects.count(), cents=sold)
    return int(sold)
