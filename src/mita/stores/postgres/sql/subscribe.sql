-- subscribe: store or renew a subscription.  In: id, queue, keep (ms).  Out: no row.
insert into mita._ear (id, queue, until) values (%(id)s, %(queue)s, {now} + %(keep)s::bigint)
on conflict (id) do update set until = excluded.until
