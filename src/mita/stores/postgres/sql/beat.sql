-- beat: store a worker's heartbeat.  In: id, view, keep (the retention in ms).  Out: no row.
insert into mita._worker (id, view, until)
values (%(id)s, %(view)s::bytea, {now} + %(keep)s::bigint)
on conflict (id) do update set view = excluded.view, until = excluded.until
