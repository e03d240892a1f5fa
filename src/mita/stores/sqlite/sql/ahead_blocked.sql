-- ahead_blocked: how many blocked jobs of its key go before a blocked job.  In: id.
select count(*) from _mita_job as me
cross join _mita_job as j indexed by _mita_waiters
where me.id = :id and j.state = 'blocked' and j.queue = me.queue and j.resource = me.resource and (
  j.priority > me.priority
  or (j.priority = me.priority and (j.due < me.due or (j.due = me.due and j.seq < me.seq))))
