-- know_queues: the queues of jobs that were taken in.  In: ids.
insert into mita._queue (name)
select distinct j.queue
from unnest(%(ids)s::text::text[]) as v (id)
join mita._job as j on j.id = v.id
where j.queue not in (select q.name from mita._queue as q)
