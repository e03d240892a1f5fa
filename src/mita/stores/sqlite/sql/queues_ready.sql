-- How many jobs of each queue are due, and the earliest due time.
-- In: now.  Out: queue, count, due.
with recursive p (queue, priority) as ({queues_and_priorities})
select j.queue, count(*), min(j.due)
from p cross join _mita_job as j indexed by _mita_ready
where j.state = {queued} and j.queue = p.queue and j.priority = p.priority and j.due <= :now
group by j.queue
