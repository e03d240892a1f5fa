-- ready: how many jobs are due in each queue, and for how long the oldest.  Out: queue, count, wait.
select j.queue, count(*), min(clock.now) - greatest(min(j.due), 0)
from (select {now} as now) as clock
cross join (select distinct name from mita._queue) as q
cross join generate_series(0, 9) as p (priority)
join mita._job as j on j.state = 'queued' and j.queue = q.name and j.priority = p.priority and j.due <= clock.now
group by j.queue
