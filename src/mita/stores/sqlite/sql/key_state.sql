-- What is known of a key.  In: queue, key.
-- Out: how many running jobs have it, until when it is on hold, whether it has a record, and that:
-- tat_us, woken_us, stored_limit, wake_at, whether jobs wait at it.
select (select count(*) from _mita_job indexed by _mita_holders
        where resource is not null and state = {running} and queue = :queue and resource = :key)
       + (select count(*) from _mita_holder where queue = :queue and key = :key),
       (select until from _mita_hold
        where queue = :queue and key = :key and typeof(until) = 'integer'),
       k.key is not null, k.tat_us, k.woken_us, k.stored_limit, k.wake_at,
       k.key is not null and exists (
         select 1 from _mita_job indexed by _mita_waiters
         where state = {blocked} and queue = :queue and blocked_at = :key)
from (select 1) left join _mita_key as k on k.queue = :queue and k.key = :key
