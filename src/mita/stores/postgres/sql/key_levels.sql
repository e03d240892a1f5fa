-- key_levels: store the rates of keys, and when the clock wakes their next waiting job.
-- In: one array for each column.  Out: no row.
insert into mita._key as k (queue, key, tat_us, woken_us, interval_us, burst, wake_at)
select v.queue, v.key, v.tat_us, v.woken_us, v.interval_us, v.burst, v.wake_at
from unnest(%(queues)s::text::text[], %(keys)s::text::text[], %(tats)s::text::bigint[],
            %(wokens)s::text::bigint[], %(intervals)s::text::bigint[], %(bursts)s::text::bigint[],
            %(wakes)s::text::bigint[])
  as v (queue, key, tat_us, woken_us, interval_us, burst, wake_at)
on conflict (queue, key) do update
set tat_us = excluded.tat_us, woken_us = excluded.woken_us,
    interval_us = excluded.interval_us, burst = excluded.burst, wake_at = excluded.wake_at
