-- Whether a job of a group has a due time beyond all others, so that no claim would ever find it.
-- In: queue.  Out: 1 or 0.
with recursive p (priority) as ({priorities_in_use}
), g (priority, fair) as (
  select p.priority, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = p.priority and fair is not null)
  from p
  union all
  select g.priority, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = g.priority and fair > g.fair)
  from g where g.fair is not null
)
select exists (
  select 1 from g cross join _mita_job as j indexed by _mita_ready
  where g.fair is not null and j.state = {queued} and j.queue = :queue
    and j.priority = g.priority and j.fair = g.fair and j.due > {latest})
