-- What is known of a key.
-- In: queue, key, counted: whether to count the running jobs that have the key. Thousands may have
-- a key that only has a rate.
-- Out: how many running jobs have it, or 0; until when it is on hold, whether it has a record, and
-- that: tat_us, woken_us, stored_limit, wake_at, whether jobs wait at it.
select case when :counted then
         (select count(*) from _mita_job indexed by _mita_holders
          where resource is not null and state = {running} and queue = :queue and resource = :key)
         + (select count(*) from _mita_holder where queue = :queue and key = :key)
       else 0 end,
       (select until from _mita_hold
        where queue = :queue and key = :key and typeof(until) = 'integer'),
       k.key is not null, k.tat_us, k.woken_us, k.stored_limit, k.wake_at,
       k.key is not null and exists (
         select 1 from _mita_job indexed by _mita_waiters
         where state = {blocked} and queue = :queue and blocked_at = :key)
from (select 1) left join _mita_key as k on k.queue = :queue and k.key = :key
