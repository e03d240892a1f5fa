-- claim_any_due: whether a job of these queues is due.
-- In: queues, priorities (those that the process knows).  Out: true or false.
select exists (
  select 1
  from (select {now} as now) as clock
  cross join unnest(%(queues)s::text::text[], %(priorities)s::text::int[])
    as line (queue, priority)
  cross join lateral (
    select 1 from mita._job as j
    where j.state = {queued} and j.fair is null
      and j.queue = line.queue and j.priority = line.priority and j.due <= clock.now
    limit 1) as j
  where line.queue not in (select p.name from mita._paused as p))
