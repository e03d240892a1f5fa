-- The running jobs that have a key.  In: queue, key (null for any).
-- Out: queue, key, id, worker, started.
select queue, key, id, worker, started from (
  select queue, resource as key, id, worker, started, seq from _mita_job indexed by _mita_holders
  where resource is not null and state = {running}
    and (:queue is null or queue = :queue) and (:key is null or resource = :key)
  union all
  select h.queue, h.key, j.id, j.worker, j.started, j.seq
  from _mita_holder as h cross join _mita_job as j on j.seq = h.job and j.state = {running}
  where (:queue is null or h.queue = :queue) and (:key is null or h.key = :key)
)
order by queue, key, started, seq
