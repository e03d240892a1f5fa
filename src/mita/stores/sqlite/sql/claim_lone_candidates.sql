-- The same as `claim_candidates` for the jobs of one group.
-- In: queue, priority, fair (null: none), now, limit.
-- Out: a JSON text, the lowest and the highest of their weights.
select json_group_array({claim_row}), min(weight), max(weight)
from (
  select seq as next from _mita_job indexed by _mita_ready
  where state = {queued} and queue = :queue and priority = :priority and fair is :fair
    and due <= :now
  order by due, seq limit :limit
)
cross join _mita_job as j on j.seq = next
