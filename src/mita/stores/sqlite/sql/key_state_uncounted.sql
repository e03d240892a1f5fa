-- The same as `key_state` without counting the running jobs that have the key: thousands may have a
-- key that only has a rate.  In: queue, key.  Out: 0, and the rest of `key_state`.
select 0,
       (select until from _mita_hold
        where queue = :queue and key = :key and typeof(until) = 'integer'),
       k.key is not null, k.tat_us, k.woken_us, k.stored_limit, k.wake_at,
       k.key is not null and exists (
         select 1 from _mita_job indexed by _mita_waiters
         where state = {blocked} and queue = :queue and blocked_at = :key)
from (select 1) left join _mita_key as k on k.queue = :queue and k.key = :key
