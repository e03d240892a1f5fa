"""Texts of errors that several stores share."""

from collections.abc import Sequence

_NAMED_NAMESPACES = 20  # more are only counted
UNREACHED = "Start the server, or fix the URL"


def namespaces(there: Sequence[str]) -> str:
    """The end of the message that a namespace is missing: the namespaces that exist."""
    more = f" and {len(there) - _NAMED_NAMESPACES} more" if len(there) > _NAMED_NAMESPACES else ""
    return f" (there are: {', '.join(there[:_NAMED_NAMESPACES])}{more})" if there else ""
