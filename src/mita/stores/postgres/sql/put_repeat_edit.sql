-- edit_repeat: write a repeat that is there, which `repeat` has locked.
update mita._repeat
set spec = %(spec)s::bytea, cursor = %(cursor)s::bigint, state = %(state)s, reason = %(reason)s, revision = %(revision)s::int,
    count = %(count)s::bigint, last = %(last)s::bigint
where key = %(key)s
