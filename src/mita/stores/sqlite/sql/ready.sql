-- ready: how many jobs are due in each queue, and since when the oldest.  In: now.  Out: queue, count, due.
select j.queue, count(*), min(j.due)
from (select name from _mita_queue) as q
cross join (values (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) as p
cross join _mita_job as j indexed by _mita_ready
where j.state = 'queued' and j.queue = q.name and j.priority = p.column1 and j.due <= :now
group by j.queue
