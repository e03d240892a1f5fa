"""An outbox: jobs are written to a table in your own database, in your own transaction, and sent to
the store after the commit.

    from mita.contrib.outbox import Outbox

    app = Mita("redis://localhost/0", outbox=Outbox("postgresql://localhost/shop"))"""

from mita.ports.outbox_table import create_sql, create_statements, drop_statements

from .outbox import Outbox

__all__ = ["Outbox", "create_sql", "create_statements", "drop_statements"]
