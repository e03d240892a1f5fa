-- subscribe: somebody listens, for so long.  In: id, queue, keep.
insert into mita._ear (id, queue, until) values (%(id)s, %(queue)s, {now} + %(keep)s::bigint)
on conflict (id) do update set until = excluded.until
