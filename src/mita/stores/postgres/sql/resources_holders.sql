-- resources_holders: the running jobs that hold a key.
-- In: queue, key (null for any).  Out: queue, key, id, worker, when it started.
select queue, resource, id, worker, started from mita._job
where resource is not null and state = {running}
  and (%(queue)s::text is null or queue = %(queue)s)
  and (%(key)s::text is null or resource = %(key)s)
order by queue, resource, started, seq
