-- Whether a job of this queue is due.  In: queue, now.  Out: 1 or 0.
with recursive p (priority) as ({priorities_in_use})
select exists (
  select 1 from p cross join _mita_job as j indexed by _mita_ready
  where j.state = {queued} and j.queue = :queue and j.priority = p.priority and j.fair is null
    and j.due <= :now)
