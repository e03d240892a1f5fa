-- How many jobs of each queue are due, and the earliest due time.
-- In: now.  Out: queue, count, due.
select j.queue, count(*), min(j.due)
from (select name from _mita_queue) as q
cross join (values {priorities}) as p
cross join _mita_job as j indexed by _mita_ready
where j.state = {queued} and j.queue = q.name and j.priority = p.column1 and j.due <= :now
group by j.queue
