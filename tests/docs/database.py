"""The database of the examples: a real server of the tests' own takes its place."""

from tests.stores.postgres import shared

SHOP = "postgresql://localhost/shop"


def with_database(text: str) -> str:
    """The text of an example, with the URL of the server."""
    return text.replace(SHOP, shared.server("pg18").url()) if SHOP in text else text
