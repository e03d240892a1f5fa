-- put_repeat_edit: overwrite a repeat that `put_repeat_lock` has locked.
-- In: the columns of a repeat.  Out: no row.
update mita._repeat
set spec = %(spec)s::bytea, cursor = %(cursor)s::bigint, state = %(state)s, reason = %(reason)s,
    revision = %(revision)s::int, count = %(count)s::bigint, last = %(last)s::bigint
where key = %(key)s
