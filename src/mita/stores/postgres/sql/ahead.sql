-- ahead: how many jobs go first, of the queue's ready ones for a ready job, of its key's blocked ones for a blocked job.
-- In: id.  Out: a number; no row for others.
select (select count(*) from mita._job as j
        where j.state = 'queued' and me.state = 'queued' and j.queue = me.queue and j.due <= clock.now
          and (j.priority > me.priority or (j.priority = me.priority and (j.due, j.seq) < (me.due, me.seq))))
     + (select count(*) from mita._job as j
        where j.state = 'blocked' and me.state = 'blocked' and j.queue = me.queue and j.resource = me.resource
          and (j.priority > me.priority or (j.priority = me.priority and (j.due, j.seq) < (me.due, me.seq))))
from mita._job as me, (select {now} as now) as clock
where me.id = %(id)s and (me.state = 'blocked' or (me.state = 'queued' and me.due <= clock.now))
