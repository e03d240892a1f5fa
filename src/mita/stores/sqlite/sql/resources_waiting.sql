-- How many jobs wait for each resource key.  In: queue, key (null for any).
select queue, resource, count(*) from _mita_job indexed by _mita_waiters
where state = {blocked}
  and (:queue is null or queue = :queue) and (:key is null or resource = :key)
group by queue, resource
