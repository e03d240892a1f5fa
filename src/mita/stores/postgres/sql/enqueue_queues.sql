-- enqueue_queues: add the queues of stored jobs to the table of queues.
-- In: ids of jobs.  Out: no row.
insert into mita._queue (name)
select distinct j.queue
from unnest(%(ids)s::text::text[]) as v (id)
join mita._job as j on j.id = v.id
where j.queue not in (select q.name from mita._queue as q)
