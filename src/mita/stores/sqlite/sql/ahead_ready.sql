-- The number of ready jobs of the same queue that start before this ready job.  In: id, now.
select count(*) from _mita_job as me
cross join _mita_job as j indexed by _mita_ready
where me.id = :id and j.state = {queued} and j.queue = me.queue and j.due <= :now and (
  j.priority > me.priority
  or (j.priority = me.priority and (j.due < me.due or (j.due = me.due and j.seq < me.seq))))
