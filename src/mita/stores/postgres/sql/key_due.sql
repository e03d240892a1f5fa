-- key_due: keys whose waiting jobs the clock may wake now.  In: limit.  Out: queue, key.
select k.queue, k.key
from (select distinct name from mita._queue) as q
cross join lateral (
  select k.queue, k.key from mita._key as k
  where k.queue = q.name and k.wake_at <= {now} order by k.wake_at limit %(limit)s::bigint) as k
