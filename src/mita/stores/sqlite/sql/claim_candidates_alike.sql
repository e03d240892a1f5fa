-- The same as `claim_candidates` if all jobs of the queue have one priority: then ageing does not
-- change their order. That is most queues.
-- In: queue, now, limit.  Out: a JSON text; null if there are several priorities.
select case when s.lowest is s.highest then (
    select json_group_array({claim_row})
    from (
      select seq as next from _mita_job indexed by _mita_ready
      where state = {queued} and queue = :queue and priority = s.lowest and fair is null
        and due <= :now
      order by due, seq limit :limit
    )
    cross join _mita_job as j on j.seq = next) end
from (
  select (select min(priority) from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue) as lowest,
         (select max(priority) from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue) as highest
) as s
