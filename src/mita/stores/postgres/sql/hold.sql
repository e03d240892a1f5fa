-- hold: start no job with this key in these queues before then.
-- In: queues, key, wait, at; `at` is a point in time, or null and `wait` counts.  Out: no row.
insert into mita._hold (queue, key, until)
select v.queue, %(key)s,
       case when %(at)s::bigint is null then clock.now + %(wait)s::bigint
            else greatest(%(at)s::bigint, clock.now) end
from unnest(%(queues)s::text::text[]) as v (queue), (select {now} as now) as clock
on conflict (queue, key) do update set until = excluded.until
