-- No job waits at this key for the clock.  In: queue, key.
update _mita_key set wake_at = null where queue = :queue and key = :key
