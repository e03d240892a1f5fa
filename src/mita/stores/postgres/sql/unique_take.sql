-- unique_take: give unique keys to new jobs, unless other jobs have them. Two transactions that
-- take the same key wait for each other here.
-- In: queues, keys, ids; for each key one job, sorted by queue and key.  Out: no row.
insert into mita._unique as u (queue, key, id)
select v.queue, v.key, v.id
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(ids)s::text::text[])
  as v (queue, key, id)
where not exists (select 1 from mita._job as j where j.id = v.id)
on conflict (queue, key) do update set id = excluded.id, until = null where u.until <= {now}
