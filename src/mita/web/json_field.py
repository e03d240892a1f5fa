"""Fields of forms that hold JSON."""

from typing import Any

import msgspec

from mita.errors import UsageError

from .visit import Form


def json_field(form: Form, name: str) -> Any:
    """Return the value of a field with JSON; None if it is empty. Raises `UsageError` if it is not
    JSON."""
    text = form.get(name)
    if not text:
        return None
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise UsageError(
            f'{name} is not JSON ({error}). Texts have quotes: "yes"; other values are like 5, '
            'true, [1, 2] or {"size": 5}'
        ) from None
