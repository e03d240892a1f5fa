-- prune_keys: forget the rates of keys that have all their tokens and at which no job waits.
-- In: nothing.  Out: no row.
with idle as materialized (
  select k.queue, k.key, k.stored_limit from mita._key as k
  where k.tat_us <= {now} * 1000
    and not exists (
      select 1 from mita._job as w
      where w.state = {blocked} and w.queue = k.queue and w.blocked_at = k.key)
  for update of k skip locked
),
kept as (
  update mita._key as k
  set tat_us = 0, woken_us = 0, interval_us = 0, burst = 1, wake_at = null
  from idle as i
  where k.queue = i.queue and k.key = i.key and i.stored_limit is not null and k.interval_us <> 0
)
delete from mita._key as k using idle as i
where k.queue = i.queue and k.key = i.key and i.stored_limit is null
