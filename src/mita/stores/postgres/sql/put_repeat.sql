-- put_repeat: store a repeat unless its key is known.
-- In: the columns of a repeat.  Out: a row if it was stored.
insert into mita._repeat (
  key, spec, cursor, state, reason, revision, count, last, failures, pause_reason)
values (%(key)s, %(spec)s::bytea, %(cursor)s::bigint, %(state)s, %(reason)s, %(revision)s::int,
        %(count)s::bigint, %(last)s::bigint, %(failures)s::bigint, %(pause_reason)s)
on conflict (key) do nothing
returning key
