"""The numbers of advisory locks."""

from hashlib import blake2b


def lock_number(namespace: str, *parts: str) -> int:
    """The number of the advisory lock for these names. If two names have the same number, their
    holders wait for each other without need, which does no harm."""
    digest = blake2b("\0".join((namespace, *parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
