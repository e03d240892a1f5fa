-- ahead_ready: how many ready jobs of its queue go before a ready job.  In: id, now.
select count(*) from _mita_job as me
cross join _mita_job as j indexed by _mita_ready
where me.id = :id and j.state = 'queued' and j.queue = me.queue and j.due <= :now and (
  j.priority > me.priority
  or (j.priority = me.priority and (j.due < me.due or (j.due = me.due and j.seq < me.seq))))
