-- any_due: is anything due in one queue?  In: queue, now.  Out: 1 or 0.
select exists (
  select 1 from (values (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) as p
  cross join _mita_job as j indexed by _mita_ready
  where j.state = 'queued' and j.queue = :queue and j.priority = p.column1 and j.due <= :now)
