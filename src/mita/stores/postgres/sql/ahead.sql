-- ahead: how many jobs run before this one: of the ready jobs of its queue if it is ready, of the
-- blocked jobs at its key if it is blocked.
-- In: id.  Out: the number; no row if the job is neither ready nor blocked.
with me as (
  select j.queue, j.resource, j.state, j.priority, j.due, j.seq, clock.now
  from mita._job as j, (select {now} as now) as clock
  where j.id = %(id)s
    and (j.state = {blocked} or (j.state = {queued} and j.due <= clock.now))
)
select (select count(*) from mita._job as j
        where j.state = {queued} and me.state = {queued}
          and j.queue = me.queue and j.due <= me.now
          and (j.priority > me.priority
               or (j.priority = me.priority and (j.due, j.seq) < (me.due, me.seq))))
     + (select count(*) from mita._job as j
        where j.state = {blocked} and me.state = {blocked}
          and j.queue = me.queue and j.resource = me.resource
          and (j.priority > me.priority
               or (j.priority = me.priority and (j.due, j.seq) < (me.due, me.seq))))
from me
