-- The number of ready jobs of a queue without groups that start before this ready job. With ageing,
-- the order is due time minus priority times ageing: then those of another priority that go first
-- are the jobs up to some due time, which are a range of the index.
-- In: queue, priority, due and seq of the job, now, ageing (null for strict priority).
with recursive p (priority) as ({priorities_in_use})
select (
  select count(*) from _mita_job indexed by _mita_ready
  where state = {queued} and queue = :queue and priority = :priority and fair is null
    and due < :due
) + (
  select count(*) from _mita_job indexed by _mita_ready
  where state = {queued} and queue = :queue and priority = :priority and fair is null
    and due = :due and seq < :seq
) + (
  select coalesce(sum((
    select count(*) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = o.priority and fair is null
      and due <= min(o.last, :now))), 0)
  from (
    select priority, case
      when :ageing is not null
        then :due + (priority - :priority) * :ageing - (priority < :priority)
      when priority > :priority then :now
      else -1 end as last
    from p where priority <> :priority) as o
)
