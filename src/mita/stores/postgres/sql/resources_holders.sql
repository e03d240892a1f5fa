-- resources_holders: the running jobs that hold a key.
-- In: queue, key (null for any).  Out: queue, key, id, worker, when it started.
select h.queue, h.key, h.id, h.worker, h.started
from (
  select j.queue, j.resource as key, j.id, j.worker, j.started, j.seq from mita._job as j
  where j.resource is not null and j.state = {running}
  union all
  select k.queue, k.key, j.id, j.worker, j.started, j.seq from mita._key_holder as k
  join mita._job as j on j.id = k.id and j.state = {running}
) as h
where (%(queue)s::text is null or h.queue = %(queue)s)
  and (%(key)s::text is null or h.key = %(key)s)
order by h.queue, h.key, h.started, h.seq
