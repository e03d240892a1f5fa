"""The statements on the table, for both kinds of database. Values are named as `%(name)s`; SQLite
takes `:name`."""

import re

from mita.ports.outbox_table import NOW_MS_SQL, POSTGRES, TABLE

_NAMED_VALUE = re.compile(r"%\((\w+)\)s")
_COLUMNS = "seq, id, task, queue, job, state"

_INSERT_ROWS = {
    POSTGRES: (
        "select %(outbox)s::text, r.value->>'id', r.value->>'task', r.value->>'queue', "
        "r.value->>'job' from json_array_elements(%(rows)s::text::json) with ordinality "
        "as r(value, n) order by r.n"
    ),
    "sqlite": (
        "select %(outbox)s, json_extract(value, '$.id'), json_extract(value, '$.task'), "
        "json_extract(value, '$.queue'), json_extract(value, '$.job') "
        "from json_each(%(rows)s) where true order by key"
    ),
}
_HAS_TABLE = {
    POSTGRES: (
        f"select current_database()::text, to_regclass('{TABLE}') is not null, "
        f"coalesce(has_table_privilege(to_regclass('{TABLE}')::oid, 'insert'), false)"
    ),
    # of a view of the same name nothing can be said
    "sqlite": (
        "select (select file from pragma_database_list where name = 'main'), "
        f"exists (select 1 from sqlite_master where name = '{TABLE}'), 1"
    ),
}
_AMONG = {POSTGRES: "= any(%(ids)s)", "sqlite": "in (select value from json_each(%(ids)s))"}


class OutboxStatements:
    """All statements of one kind of database."""

    def __init__(self, dialect: str) -> None:
        among = f"outbox = %(outbox)s and id {_AMONG[dialect]}"
        columns = f"{_COLUMNS}, {NOW_MS_SQL[dialect]} - written, error"
        waiting = "outbox = %(outbox)s and state <> 'parked'"
        parked = "outbox = %(outbox)s and state = 'parked'"
        # the values are placeholders; only names of this module are put into the text
        self.check = _HAS_TABLE[dialect]
        self.insert = (
            f"insert into {TABLE} (outbox, id, task, queue, job) {_INSERT_ROWS[dialect]} "
            "on conflict (outbox, id) do nothing returning id"
        )
        self.pending = f"select {columns} from {TABLE} where {waiting} order by seq limit %(limit)s"
        self.place = (
            f"update {TABLE} set state = 'placed' where {among} and state = 'new' returning id"
        )
        self.remove = f"delete from {TABLE} where {among}"
        self.park = f"update {TABLE} set state = 'parked', error = %(error)s where {among}"
        self.row = f"select {columns} from {TABLE} where outbox = %(outbox)s and id = %(id)s"
        self.beginning = (  # no comparison by order: that depends on the collation
            f"select {columns} from {TABLE} where outbox = %(outbox)s "
            "and substr(id, 1, %(length)s) = %(start)s order by seq limit %(limit)s"
        )
        self.parked = f"select {columns} from {TABLE} where {parked} order by seq limit %(limit)s"
        self.retry = (
            f"update {TABLE} set state = 'new', error = null where {among} "
            "and state = 'parked' returning id"
        )
        self.delete = f"delete from {TABLE} where {among} and state = 'parked' returning id"
        self.view = (
            f"select (select count(*) from {TABLE} where {waiting}), "
            f"coalesce({NOW_MS_SQL[dialect]} - "
            f"(select written from {TABLE} where {waiting} order by seq limit 1), 0), "
            f"(select count(*) from {TABLE} where {parked})"
        )


def for_sqlite(text: str) -> str:
    """The statement with `:name` in place of `%(name)s`."""
    return _NAMED_VALUE.sub(r":\1", text)
