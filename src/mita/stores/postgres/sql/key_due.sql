-- key_due: keys whose waiting jobs the clock may wake now.
-- In: queues (null for all; otherwise paused queues are left out), limit (of each queue).
-- Out: queue, key.
select k.queue, k.key
from (select distinct q.name from mita._queue as q
      where %(queues)s::text is null
         or (q.name = any (%(queues)s::text::text[])
             and q.name not in (select p.name from mita._paused as p))) as q
cross join lateral (
  select k.queue, k.key from mita._key as k
  where k.queue = q.name and k.wake_at <= {now} order by k.wake_at limit %(limit)s::bigint) as k
