"""A package of a stranger: a store of its own, with a URL scheme of its own."""
