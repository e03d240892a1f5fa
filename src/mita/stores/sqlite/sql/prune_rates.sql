-- Rates that are full again, of keys with a stored limit, at which no job waits.  In: now_us.
update _mita_key as k set tat_us = 0, woken_us = 0, interval_us = 0, burst = 1, wake_at = null
where k.stored_limit is not null and k.interval_us > 0
  and (k.tat_us <= :now_us or typeof(k.tat_us) <> 'integer')
  and not exists (
    select 1 from _mita_job indexed by _mita_waiters
    where state = {blocked} and queue = k.queue and blocked_at = k.key)
