-- The keys with a rate or a stored limit.  In: queue, key (null for any).
-- Out: queue, key, tat_us, interval_us, burst, stored_limit.
select queue, key, tat_us, interval_us, burst, stored_limit from _mita_key
where (:queue is null or queue = :queue) and (:key is null or key = :key)
