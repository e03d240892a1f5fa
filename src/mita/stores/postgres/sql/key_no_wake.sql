-- key_no_wake: the clock wakes no job at those of these keys, which are locked, where none waits.
-- In: queues, keys.  Out: no row.
update mita._key as k set wake_at = null
from unnest(%(queues)s::text::text[], %(keys)s::text::text[]) as v (queue, key)
where k.queue = v.queue and k.key = v.key and k.wake_at is not null
  and not exists (
    select 1 from mita._job as w
    where w.state = {blocked} and w.queue = v.queue and w.blocked_at = v.key)
