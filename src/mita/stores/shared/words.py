"""What every store with a server says alike."""

from collections.abc import Sequence

_MOST = 20  # namespaces that are named
UNREACHED = "Start the server, or mend the URL"


def namespaces(there: Sequence[str]) -> str:
    """The rest of a message that a namespace is missing: which ones there are."""
    more = f" and {len(there) - _MOST} more" if len(there) > _MOST else ""
    return f" (there are: {', '.join(there[:_MOST])}{more})" if there else ""
