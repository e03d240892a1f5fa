-- put_repeat: insert a repeat, or replace what a person decides about it. The same spec again changes nothing.
-- In: key, spec, cursor, state, reason, revision, count, last.  Out: no row when nothing was changed.
insert into mita._repeat as r (key, spec, cursor, state, reason, revision, count, last)
values (%(key)s, %(spec)s::bytea, %(cursor)s::bigint, %(state)s, %(reason)s, %(revision)s::int, %(count)s::bigint, %(last)s::bigint)
on conflict (key) do update
set spec = excluded.spec, cursor = excluded.cursor, reason = excluded.reason, revision = r.revision + 1,
    state = case when r.state = 'paused' then 'paused' else excluded.state end
where r.spec <> excluded.spec or r.state not in ('active', 'paused')
returning key, spec, cursor, state, reason, revision, count, last
