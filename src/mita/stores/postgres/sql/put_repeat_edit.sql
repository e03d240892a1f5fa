-- put_repeat_edit: overwrite a repeat that `put_repeat_lock` has locked.
-- In: the columns of a repeat.  Out: no row.
update mita._repeat
set spec = %(spec)s::bytea, cursor = %(cursor)s::bigint, state = %(state)s, reason = %(reason)s,
    revision = %(revision)s::int, count = %(count)s::bigint, last = %(last)s::bigint,
    failures = %(failures)s::bigint, pause_reason = %(pause_reason)s
where key = %(key)s
