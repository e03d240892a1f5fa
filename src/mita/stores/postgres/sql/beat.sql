-- beat: a worker says that it is alive.  In: id, view, keep.
insert into mita._worker (id, view, until) values (%(id)s, %(view)s::bytea, {now} + %(keep)s::bigint)
on conflict (id) do update set view = excluded.view, until = excluded.until
