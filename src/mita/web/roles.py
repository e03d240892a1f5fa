"""Who may do what on the dashboard."""

from enum import IntEnum

from msgspec import Struct

from mita.errors import UsageError


class Role(IntEnum):
    """What a visitor may do. `READ`: see everything but arguments, results and values of jobs.
    `OPERATE`: see these too, and change single jobs, queues, keys, repeats and flows. `ADMIN`: also
    change arguments, delete jobs, and change many jobs at once."""

    READ = 1
    OPERATE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        """The role as people write it: `read`, `operate` or `admin`."""
        return self.name.lower()


class Visitor(Struct, frozen=True):
    """Who sent a request: the role, and the name for the audit log."""

    role: Role
    name: str


def role_of(given: object) -> Role:
    """Return the role for what a host application answers. Raises `UsageError` if it is no role."""
    if isinstance(given, Role):
        return given
    if isinstance(given, str) and given.upper() in Role.__members__:
        return Role[given.upper()]
    names = ", ".join(role.label for role in Role)
    raise UsageError(f"authorize returned {given!r}: return one of {names}, or None")
