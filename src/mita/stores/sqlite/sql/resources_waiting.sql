-- How many jobs wait at each key.  In: queue, key (null for any).
select queue, blocked_at, count(*) from _mita_job indexed by _mita_waiters
where state = {blocked}
  and (:queue is null or queue = :queue) and (:key is null or blocked_at = :key)
group by queue, blocked_at
