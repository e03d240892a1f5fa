-- Whether a job of this queue is due.  In: queue, now.  Out: 1 or 0.
select exists (
  select 1 from (values {priorities}) as p
  cross join _mita_job as j indexed by _mita_ready
  where j.state = {queued} and j.queue = :queue and j.priority = p.column1 and j.fair is null
    and j.due <= :now)
