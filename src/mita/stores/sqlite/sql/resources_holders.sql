-- The running jobs that have a resource key.  In: queue, key (null for any).
select queue, resource, id, worker, started from _mita_job indexed by _mita_holders
where resource is not null and state = {running}
  and (:queue is null or queue = :queue) and (:key is null or resource = :key)
order by queue, resource, started, seq
