-- resources_limits: the rates and the stored limits of keys.
-- In: queue, key (null for any).
-- Out: queue, key, tat_us, interval_us, burst, stored limit, now.
select k.queue, k.key, k.tat_us, k.interval_us, k.burst, k.stored_limit::text, {now}
from mita._key as k
where (%(queue)s::text is null or k.queue = %(queue)s)
  and (%(key)s::text is null or k.key = %(key)s)
