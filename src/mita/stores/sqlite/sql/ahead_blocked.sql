-- The number of blocked jobs of the same key that start before this blocked job.  In: id.
select count(*) from _mita_job as me
cross join _mita_job as j indexed by _mita_waiters
where me.id = :id and j.state = {blocked} and j.queue = me.queue and j.blocked_at = me.blocked_at
  and (
    j.priority > me.priority
    or (j.priority = me.priority and (j.due < me.due or (j.due = me.due and j.seq < me.seq))))
