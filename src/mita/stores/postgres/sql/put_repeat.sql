-- put_repeat: write a repeat that is not there yet.  Out: a row when it was not.
insert into mita._repeat (key, spec, cursor, state, reason, revision, count, last)
values (%(key)s, %(spec)s::bytea, %(cursor)s::bigint, %(state)s, %(reason)s, %(revision)s::int, %(count)s::bigint, %(last)s::bigint)
on conflict (key) do nothing
returning key
