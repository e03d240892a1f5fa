"""The errors of the shop's past, as a worker would have stored them: the type and the message, then
where it happened."""

import random
from typing import NamedTuple

from mita.model.ending import Ending, Raised, TimedOut


class ShopError(NamedTuple):
    """An error of a task. `share`: how many of its runs fail with it. `since_hours`: it began so
    many hours ago. `head` and `trace` have placeholders for chance numbers."""

    share: float
    since_hours: float
    head: str
    trace: tuple[str, ...]
    final: bool = False


def _at(file: str, line: int, function: str, source: str) -> str:
    """One frame of a traceback, as a worker writes it."""
    return f'  File "/srv/shop/{file}", line {line}, in {function}\n    {source}'


ERRORS: dict[str, tuple[ShopError, ...]] = {
    "charge_card": (
        ShopError(
            0.75,
            2.5,
            "shop.payments.GatewayTimeout: order {order}: no answer from eu-{small} after 10 s",
            (
                _at("payments.py", 88, "charge_card", "answer = await gateway.charge(order)"),
                _at("gateway.py", 41, "charge", "raise GatewayTimeout(self.host, order)"),
            ),
        ),
        ShopError(
            0.04,
            24.0,
            "shop.payments.CardDeclined: order {order}: insufficient funds",
            (_at("payments.py", 93, "charge_card", "raise CardDeclined(order, answer.reason)"),),
            final=True,
        ),
    ),
    "send_receipt": (
        ShopError(
            0.09,
            24.0,
            "smtplib.SMTPRecipientsRefused: {{'ada{order}@example.com': (550, b'no mailbox')}}",
            (_at("mail.py", 27, "send_receipt", "server.send_message(message)"),),
            final=True,
        ),
        ShopError(
            0.03,
            24.0,
            "TimeoutError: no answer from the mail server after 30 s",
            (_at("mail.py", 22, "send_receipt", "server = connect()"),),
        ),
    ),
    "resize_image": (
        ShopError(
            0.08,
            20.0,
            "PIL.UnidentifiedImageError: cannot identify image file '/data/{order}.jpg'",
            (_at("images.py", 15, "resize_image", "with Image.open(path) as image:"),),
            final=True,
        ),
    ),
    "sync_stock": (
        ShopError(
            0.06,
            24.0,
            "KeyError: 'sku-{order}'",
            (_at("stock.py", 64, "sync_stock", "shelf = shelves[row['sku']]"),),
        ),
    ),
}


def ending_of(task: str, order: object, hours_ago: float, chance: random.Random) -> Ending | None:
    """How a run of this task for this order ended so many hours ago, if it failed; None: it
    succeeded."""
    roll = chance.random()
    for one in ERRORS.get(task, ()):
        if hours_ago > one.since_hours:
            continue
        if roll < one.share:
            return Raised(text(one, order, chance), final=one.final)
        roll -= one.share
    return TimedOut(60.0) if task == "charge_card" and roll > 0.98 else None


def text(error: ShopError, order: object, chance: random.Random) -> str:
    """The text of this error, with other numbers each time."""
    head = error.head.format(order=order, small=chance.randrange(1, 4))
    return "\n".join([head, *error.trace])
