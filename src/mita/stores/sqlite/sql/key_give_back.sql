-- A start did not happen: its token is given back. When the clock may wake the next job is open
-- then.  In: queue, key, tat_us, woken_us.
update _mita_key set tat_us = :tat_us, woken_us = :woken_us, wake_at = null
where queue = :queue and key = :key
